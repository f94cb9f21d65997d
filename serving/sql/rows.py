"""The result of a statement in types that every JSON reader has, each as answers have it (views.rows)."""

import math
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from views.rows import utc_text

Row = Mapping[str, Any]


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in order; integers of any size, other decimals as strings, times in ISO 8601, bytes in base64.

    A map is a list of pairs. What has no type of its own in JSON, such as an interval, is a string.
    """
    columns = [[plain(value) for value in column.to_pylist()] for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain(value: Any) -> Any:
    """One value."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else utc_text(value.astimezone(UTC))
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "nanoseconds"):  # an interval is a tuple too
        return [plain(inner) for inner in value]
    return str(value)
