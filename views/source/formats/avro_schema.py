"""Avro schemas as parsed: what is behind a name."""

from collections.abc import Mapping
from typing import Any


def resolved(schema: Any, names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition behind a name; a primitive type's name as a definition."""
    if isinstance(schema, str):
        schema = names.get(schema, {"type": schema})
    found: Mapping[str, Any] = schema
    return found
