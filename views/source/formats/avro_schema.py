"""Parsed Avro schemas: the definition of a name."""

from collections.abc import Mapping
from typing import Any


def resolved(schema: Any, names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition of a name; for a primitive type, a definition with its name."""
    if isinstance(schema, str):
        schema = names.get(schema, {"type": schema})
    found: Mapping[str, Any] = schema
    return found
