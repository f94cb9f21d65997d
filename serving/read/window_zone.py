"""The zone of a view's windows: its clocks read the times that a question names without a zone, and show the windows.

One rule for the command line and HTTP. Rows of JSON have the bounds in UTC and, in `_local`, on the zone's clocks; CSV and typed
columns have the same instants in the zone.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from tandem.views.time_zone import time_zone
from tandem.views.view import View
from tandem.views.windows import WINDOW_COLUMNS
from tandem.views.windows.calendar import Calendar

LOCAL: Final = "_local"
"""The field of a row in JSON with the bounds of its window in the view's zone. No key or measure begins with _."""


def zone_name(view: View) -> str | None:
    """The zone whose clocks bound the view's windows; None if its windows have no zone."""
    return view.window.zone if isinstance(view.window, Calendar) else None


def clocks(zone: str | None) -> tzinfo:
    """The clocks of a zone; UTC without one."""
    return UTC if zone is None else time_zone(zone)


def table_in(table: pa.Table, zone: str) -> pa.Table:
    """The table, whose window bounds are the same instants with this zone."""
    for name in WINDOW_COLUMNS:
        place = table.schema.get_field_index(name)
        if place >= 0:
            field = table.schema.field(place).with_type(pa.timestamp("us", zone))
            table = table.set_column(place, field, table.column(place).cast(field.type))
    return table


def rows_in(rows: Sequence[Mapping[str, Any]], zone: str) -> list[dict[str, Any]]:
    """Rows of JSON types, whose window bounds have the local time and the offset."""
    return [{**row, **_bounds(row, zone)} for row in rows]


def rows_with_local(rows: Sequence[Mapping[str, Any]], zone: str | None) -> list[dict[str, Any]]:
    """Rows of JSON types, each with its window's bounds in the zone beside those in UTC; as they are without a zone."""
    return [dict(row) for row in rows] if zone is None else [with_local(row, zone) for row in rows]


def with_local(row: Mapping[str, Any], zone: str) -> dict[str, Any]:
    """A row of JSON types with its window's bounds in the zone beside those in UTC, if it has any."""
    bounds = _bounds(row, zone)
    return {**row, LOCAL: bounds} if bounds else dict(row)


def _bounds(row: Mapping[str, Any], zone: str) -> dict[str, str | None]:
    return {name: row[name] and _local(row[name], zone) for name in WINDOW_COLUMNS if name in row}


@lru_cache(maxsize=1 << 16)
def _local(text: str, zone: str) -> str:
    """The time on the clocks of the zone, with their offset."""
    return datetime.fromisoformat(text).astimezone(time_zone(zone)).isoformat()
