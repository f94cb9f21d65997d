"""One reader of times for all formats: from what a field's value is in its format to a datetime."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Field
from tandem.views.source.fields.clock_values import (
    duration_of_number,
    duration_of_text,
    epoch_time,
    time_of_number,
    time_of_text,
)
from tandem.views.source.fields.iso8601 import iso8601_time
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.rfc3339 import cut
from tandem.views.source.fields.time_patterns import clock_reader, pattern_reader
from tandem.views.source.fields.wall_clock import on_wall_clocks
from tandem.views.source.time_notation import CLOCKS, Notation, Zone

_DETAIL_CHARACTERS: Final = 40

ReadTime = Callable[[Any], Any]
"""From a text, number or time to the time; raises Reject. A value of another type stays as it is, for msgspec to refuse."""


def is_time(field: Field) -> bool:
    """Whether a field's texts or numbers are read as times."""
    return field.type is datetime or field.type in CLOCKS or (field.notation is not None and field.notation.format is not None)


def time_reader(field: Field) -> ReadTime:
    """The reader of a field's times, as its annotations say. Without them, texts are of ISO 8601 with a zone."""
    notation = field.notation or Notation()
    read = _clock_reader(notation, field.type) if field.type in CLOCKS else _reader(notation, dates=field.type is date)

    def with_name(value: Any) -> Any:
        try:
            return read(value)
        except Reject as reject:
            start = repr(str(value)[:_DETAIL_CHARACTERS])
            raise Reject(reject.reason, f"field {field.key}: {reject.detail}: {start}") from reject

    return with_name


def refuse_notation(field: Field, place: str, what: str) -> None:
    """Raise DefinitionError for a field with annotations, whose times `what` defines."""
    raise DefinitionError(f"{place}: {what} defines how its times are written; remove {field.notation}")


def iso_time(text: str, zone: Zone | None = None) -> datetime:
    """The time of a text of ISO 8601; raises Reject.

    msgspec reads the texts of RFC 3339, nearly all, in a fraction of the time that the others take.
    """
    try:
        time = msgspec.convert(cut(text), datetime)
    except msgspec.ValidationError:
        return iso8601_time(text, zone)
    if time.tzinfo is not None:
        return time
    if zone is None:
        raise Reject("no_zone", "the time has no zone")
    return on_wall_clocks(time, zone)


@lru_cache(maxsize=256)
def _reader(notation: Notation, *, dates: bool) -> ReadTime:
    epoch, zone = notation.epoch, notation.zone
    if epoch is not None:
        unit = epoch.unit
        return lambda value: epoch_time(value, unit) if _is_number(value) else value
    read = partial(iso_time, zone=zone) if notation.format is None else pattern_reader(notation.format, zone, dates=dates)

    def value_of(value: Any) -> Any:
        if isinstance(value, str):
            return read(value)
        if zone is not None and isinstance(value, datetime) and value.tzinfo is None:
            return on_wall_clocks(value, zone)
        return value

    return value_of


@lru_cache(maxsize=256)
def _clock_reader(notation: Notation, kind: type[time] | type[timedelta]) -> ReadTime:
    """The reader of a time of day or duration."""
    unit = notation.unit
    if unit is not None:
        of_number = time_of_number if kind is time else duration_of_number
        return lambda value: of_number(value, unit) if _is_number(value) else value
    of_text: ReadTime = duration_of_text if kind is timedelta else time_of_text
    if notation.format is not None:
        of_text = clock_reader(notation.format)

    def value_of(value: Any) -> Any:
        if isinstance(value, str):
            return of_text(value)
        if _is_number(value):
            raise Reject("wrong_type", 'a number, of which Unit("s"), "ms", "us" or "ns" would say what it is of')
        return value

    return value_of


def _is_number(value: Any) -> bool:
    return isinstance(value, str | int | float | Decimal) and not isinstance(value, bool)
