"""Times with digits beyond the microsecond: the further digits are cut, toward the past, so that both copies of a record whose
relay kept microseconds are one event.

msgspec 0.22 rounds them to the nearest microsecond, with a carry into the next second, day or year, and refuses the last half
microsecond of the year 9999. So they are cut before it reads the text.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from tandem.views.source.event import Event, Field, event_fields

_FURTHER: Final = re.compile(r"(:[0-9]{2}\.[0-9]{6})[0-9]+", re.ASCII)
_FURTHER_BYTES: Final = re.compile(rb":[0-9]{2}\.[0-9]{7}")
_SEVEN_DIGITS: Final = re.compile(rb"\.[0-9]{7}")
"""What no time without further digits has; a search for it costs a quarter of one for the whole pattern."""
_ESCAPED: Final = re.compile(rb"\\u00[23]")
"""A point, colon or digit as JSON may write it, too."""
_SHORTEST: Final = len("2026-11-01T08:00:00.1234567Z")
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)


def cut(text: str) -> str:
    """The text of one time, to the microsecond."""
    return text if len(text) < _SHORTEST else _FURTHER.sub(r"\1", text)


def may_have_further_digits(json: bytes) -> bool:
    """Whether JSON values may hold a time with digits beyond the microsecond; false for nearly all that hold none."""
    return next(places_of_further_digits(json), None) is not None


def places_of_further_digits(json: bytes) -> Iterator[int]:
    """Where JSON values may hold such a time; the places are in no order."""
    if _SEVEN_DIGITS.search(json) is not None:
        yield from (match.start() for match in _FURTHER_BYTES.finditer(json))
    if b"\\u00" in json:
        yield from (match.start() for match in _ESCAPED.finditer(json))


Cut = Callable[[bytes], bytes]
"""From one JSON value to the same with its times to the microsecond. Raises errors of msgspec for a value of another type."""


def cut_in_json(event: type[Event]) -> Cut:
    """The function for values of the event type. All else, and a value of another type, stays as it is."""
    cut_object = _cut_struct(event, event_fields(event))
    if cut_object is None:
        return lambda value: value
    written = _written_times(event)

    def cut_value(value: bytes) -> bytes:
        if written is not None and b"\\" not in value:
            for start, end in reversed([match.span(1) for match in written.finditer(value)]):
                value = value[:start] + value[end:]  # half of the time that `sub` takes
            return value
        try:
            return cut_object(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return value  # the event type's own decoder says what is wrong

    return cut_value


def _written_times(event: type[Event]) -> re.Pattern[bytes] | None:
    """A pattern of every time of a value without escapes; None if a key alone does not tell that its text is a time."""
    times, others = set[str](), set[str]()
    left = list(event_fields(event))
    while left:
        field = left.pop()
        (times if field.type is datetime else others).add(field.key)
        inner = field.items or field
        left.extend(inner.fields)
        if field.items is not None and _has_times(field) and not inner.fields:
            return None
    structs = (event, *_structs(event_fields(event)))
    if times & others or any(struct.__struct_config__.array_like for struct in structs):
        return None
    keys = b"|".join(re.escape(key.encode()) for key in sorted(times))
    return re.compile(rb'"(?:' + keys + rb')"[ \t\r\n]*:[ \t\r\n]*"[^".]*\.[0-9]{6}([0-9]+)')


def _structs(fields: Sequence[Field]) -> Iterator[type[msgspec.Struct]]:
    for field in fields:
        inner = field.items or field
        if inner.fields:
            yield inner.type
        yield from _structs(inner.fields)


def _cut_struct(struct: type[msgspec.Struct], fields: Sequence[Field]) -> Cut | None:
    config = struct.__struct_config__
    first = 0 if config.tag is None else 1
    cuts = [(first + place, field.key, cut) for place, field in enumerate(fields) if (cut := _cut_json(field)) is not None]
    if not cuts:
        return None
    if config.array_like:
        return partial(_cut_members, _ARRAY.decode, [(place, cut) for place, _, cut in cuts])
    return partial(_cut_members, _OBJECT.decode, [(key, cut) for _, key, cut in cuts])


def _cut_members(decode: Callable[[bytes], Any], cuts: Sequence[tuple[Any, Cut]], value: bytes) -> bytes:
    members = decode(value)
    size = len(members)
    for place, cut_member in cuts:
        if place < size if isinstance(place, int) else place in members:
            members[place] = msgspec.Raw(cut_member(bytes(members[place])))
    return msgspec.json.encode(members)


def _cut_json(field: Field) -> Cut | None:
    if field.type is datetime:
        return _cut_text
    inner = _cut_json(field.items) if field.items is not None else _cut_struct(field.type, field.fields) if field.fields else None
    if inner is None:
        return None
    whole = partial(_cut_items, inner) if field.items is not None else inner
    return lambda value: value if value == b"null" else whole(value)


def _cut_text(value: bytes) -> bytes:
    return msgspec.json.encode(cut(_TEXT.decode(value))) if may_have_further_digits(value) else value


def _cut_items(inner: Cut, value: bytes) -> bytes:
    return msgspec.json.encode([msgspec.Raw(inner(bytes(item))) for item in _ARRAY.decode(value)])


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
