"""When each event was, for the plain oracle."""

from datetime import datetime
from typing import Any

import pyarrow as pa

from tandem.views.oracle.days import first_instant
from tandem.views.oracle.expressions import evaluated
from tandem.views.source.fields.event_time import EVENT_TIME_COLUMN, time_path
from tandem.views.source.source import Source
from tandem.views.sql.engine import quoted


def event_times(source: Source, events: pa.Table) -> list[Any]:
    """When each event was, from the field that the source names, unless its `prepare` may have changed the time."""
    if source.time_column != EVENT_TIME_COLUMN or source.prepare is not None:
        return evaluated(quoted(source.time_column), events)
    path = time_path(source.event, source.event_time)
    values = events[path[0].name].to_pylist()
    for field in path[1:]:
        values = [value[field.name] for value in values]
    zone = path[-1].notation and path[-1].notation.zone
    return values if path[-1].type is datetime or not zone else [first_instant(day, zone) for day in values]
