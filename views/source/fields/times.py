"""Times with digits beyond the microsecond: the further digits are cut, toward the past, so that both copies of a record whose
relay kept microseconds are one event.

msgspec 0.22 rounds them to the nearest microsecond, with a carry into the next second, day or year, and refuses the last half
microsecond of the year 9999. So they are cut before it reads the text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from tandem.views.source.event import Event, Field, event_fields

_FURTHER: Final = re.compile(r"(:[0-9]{2}\.[0-9]{6})[0-9]+", re.ASCII)
may_have_further_digits: Final = re.compile(rb"\.[0-9]{7}").search
"""What no time without further digits has; a search for it costs a quarter of one for the whole pattern."""
_SHORTEST: Final = len("2026-11-01T08:00:00.1234567Z")
_FURTHER_BYTES: Final = re.compile(rb":([0-9]{2})\.[0-9]{6}([0-9]+)")
_NO_SECOND: Final = b"99"
_NO_TIME: Final = "RFC3339"
"""In msgspec's error about a text that is not a time."""


def cut(text: str) -> str:
    """The text of one time, to the microsecond."""
    return text if len(text) < _SHORTEST else _FURTHER.sub(r"\1", text)


def cut_in_json(decode: Callable[[bytes], Any], value: bytes) -> bytes:
    """The JSON value with its times to the microsecond; other texts, which `decode` does not read as times, stay as they are.

    Whether a text is read as a time, `decode` tells: it refuses a time with the second 99.
    """
    places = [(match.span(1), match.span(2)) for match in _FURTHER_BYTES.finditer(value)]
    cuts = [further for number, (_, further) in enumerate(places) if _is_time(decode, value, places, number)]
    return _without(value, cuts)


def _is_time(decode: Callable[[bytes], Any], value: bytes, places: Sequence[Any], number: int) -> bool:
    (start, end), _ = places[number]
    asked = value[:start] + _NO_SECOND + value[end:]
    try:
        decode(_without(asked, [further for _, further in places]))
    except msgspec.ValidationError as error:
        return _NO_TIME in str(error)
    except msgspec.DecodeError:
        return False
    return False


def _without(value: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    for start, end in reversed(spans):
        value = value[:start] + value[end:]
    return value


def cut_by_name(event: type[Event], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of an event's fields by key, the texts of times to the microsecond."""
    return _cut_fields(time_fields(event), values)


@lru_cache(maxsize=4096)
def time_fields(event: type[Event]) -> tuple[Field, ...]:
    """The fields of an event type that are times or hold some."""
    return tuple(field for field in event_fields(event) if _has_times(field))


def _has_times(field: Field) -> bool:
    return field.type is datetime or any(map(_has_times, field.fields)) or (field.items is not None and _has_times(field.items))


def _cut_fields(fields: Sequence[Field], values: Mapping[str, Any]) -> Mapping[str, Any]:
    for field in fields:
        value = values.get(field.key)
        if isinstance(value, str | list | dict) and (shorter := _cut_value(field, value)) is not value:
            values = {**values, field.key: shorter}
    return values


def _cut_value(field: Field, value: Any) -> Any:
    match value:
        case str():
            return cut(value) if field.type is datetime else value
        case list() if field.items is not None:
            return [_cut_value(field.items, item) for item in value]
        case dict() if field.fields:
            return _cut_fields(field.fields, value)
    return value
