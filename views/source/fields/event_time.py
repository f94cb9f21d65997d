"""Where an event has its time: a field of the event type or of a struct in it, a datetime or a date with a zone."""

from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import array
from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import TIMESTAMP, Event, Field, event_fields
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.wall_clock import on_wall_clocks
from tandem.views.source.time_notation import Zone
from tandem.views.value_forms import display_text

EVENT_TIME_COLUMN: Final = "_event_time"
"""The column with the event time where no column of the event's own fields is it."""


def time_path(event: type[Event], event_time: Any) -> tuple[Field, ...]:
    """The field that `event_time` names, after the structs that it is in: `at`, `properties.time`. Raises DefinitionError."""
    fields, path = event_fields(event), list[Field]()
    if not isinstance(event_time, str):
        times = listed("", _names(fields, ""))
        raise DefinitionError(
            f"event_time {display_text(event_time)} is not a text; write the name of a field; such fields: {times}"
        )
    for name in event_time.split("."):
        names = {field.name: field for field in fields}
        if name not in names:
            place = ".".join((event.__name__, *(field.name for field in path)))
            raise DefinitionError(f"event_time: no field {name!r} in {place}; fields: {listed(name, names)}")
        path.append(names[name])
        fields = () if path[-1].optional else path[-1].fields
    if path[-1].type is date and not path[-1].optional and day_zone(path[-1]) is None:
        raise DefinitionError(
            f"event_time: field {event_time!r} of {event.__name__} is a date, and nothing says where its days begin; "
            'declare Annotated[date, Zone("Europe/Berlin")]'
        )
    if path[-1].optional or not is_event_time(path[-1]):
        raise DefinitionError(
            f"event_time: field {event_time!r} of {event.__name__} is not a datetime that is always "
            f"present; such fields: {listed(event_time, _names(event_fields(event), ''))}"
        )
    return tuple(path)


def is_event_time(field: Field) -> bool:
    """Whether a field of the type can be the event time, if it is always present."""
    return field.type is datetime or day_zone(field) is not None


def day_zone(field: Field) -> Zone | None:
    """The zone in which the days of a field of dates begin."""
    return None if field.type is not date or field.notation is None else field.notation.zone


def instant_of(field: Field, value: Any) -> datetime:
    """The event time of one value of the field: a date is its first instant. Raises Reject."""
    zone = day_zone(field)
    return value if zone is None else on_wall_clocks(datetime.combine(value, time()), zone)


def instants(path: tuple[Field, ...], column: pa.Array) -> tuple[pa.Array, dict[int, Reject]]:
    """The event times in a column of the path's first field; null where a date has none, with the reject."""
    for field in path[1:]:
        column = pc.struct_field(column, field.name)
    if day_zone(path[-1]) is None:
        return column, {}
    days = column.to_pylist()
    times: dict[date, datetime | Reject] = {}
    for day in set(days):
        try:
            times[day] = instant_of(path[-1], day)
        except Reject as reject:
            times[day] = reject
    rows = [times[day] for day in days]
    rejects = {number: row for number, row in enumerate(rows) if isinstance(row, Reject)}
    return array([None if isinstance(row, Reject) else row for row in rows], TIMESTAMP), rejects


def _names(fields: tuple[Field, ...], place: str) -> Iterator[str]:
    """What can be the event time, by its path."""
    for field in fields:
        if not field.optional:
            if is_event_time(field):
                yield f"{place}{field.name}"
            yield from _names(field.fields, f"{place}{field.name}.")
