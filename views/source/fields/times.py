"""Times and numbers of an event that msgspec does not read as formats write them: in JSON, and in values by name."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache, partial
from operator import is_
from typing import Any, Final

import msgspec
import pyarrow as pa

from tandem.views.source.event import Event, Field, any_field, event_fields
from tandem.views.source.fields.numbers import decimal_of_text, integer_of
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.rfc3339 import FURTHER_DIGITS, cut
from tandem.views.source.fields.time_reader import ReadTime, is_time, time_reader

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)
_FURTHER_DIGITS: Final = re.compile(FURTHER_DIGITS.encode())
_DETAIL_CHARACTERS: Final = 40
_LONG: Final = 19
"""From this number of digits on, integers are not parsed as such: Python refuses those of thousands of digits."""
_NUMBER_STARTS: Final = tuple(bytes([byte]) for byte in b"-0123456789")

Rewrite = Callable[[bytes], bytes]
"""From one JSON value to the same with its times in another form. Raises errors of msgspec for a value of another type."""


def cut_in_json(event: type[Event]) -> Rewrite:
    """The function that cuts times of RFC 3339 to the microsecond. All else, and a value of another type, stays as it is."""
    cut_object = _struct(event, event_fields(event), _cut_leaf)
    if cut_object is None:
        return lambda value: value
    written = _written_times(event)

    def cut_value(value: bytes) -> bytes:
        if written is not None and b"\\" not in value:
            for start, end in reversed([match.span(1) for match in written.finditer(value)]):
                value = value[:start] + value[end:]  # half of the time that `sub` takes
            return value
        return _unless_of_another_type(cut_object, value)

    return cut_value


def values_in_json(event: type[Event]) -> Rewrite:
    """The function that reads times as their fields' annotations say, and writes them as RFC 3339; it raises Reject.

    Integers that are written as 5.0 or 1e3 become digits. A Decimal's text is refused unless it is a number. A value of
    another type stays as it is.
    """
    read_object = _struct(event, event_fields(event), _value_leaf)
    return (lambda value: value) if read_object is None else partial(_unless_of_another_type, read_object)


def _unless_of_another_type(rewrite: Rewrite, value: bytes) -> bytes:
    try:
        return rewrite(value)
    except msgspec.ValidationError:
        return value  # the event type's own decoder says what is wrong


def _written_times(event: type[Event]) -> re.Pattern[bytes] | None:
    """A pattern of every time of a value without escapes; None if a key alone does not tell that its text is a time."""
    times, others = set[str](), set[str]()
    if has_maps(event_fields(event)):
        return None  # any key may be one of a map, whose text is a time or not
    left = list(event_fields(event))
    while left:
        field = left.pop()
        (times if field.type is datetime else others).add(field.key)
        inner = field.items or field
        left.extend(inner.fields)
        if field.items is not None and is_time(_innermost(field)):
            return None
    structs = (event, *_structs(event_fields(event)))
    if times & others or any(struct.__struct_config__.array_like for struct in structs):
        return None
    keys = b"|".join(re.escape(key.encode()) for key in sorted(times))
    return re.compile(rb'"(?:' + keys + rb')"[ \t\r\n]*:[ \t\r\n]*"[^".]*\.[0-9]{6}([0-9]+)')


def has_maps(fields: Sequence[Field]) -> bool:
    """Whether a field is a map, at any depth."""
    return any_field(fields, lambda field: field.type is dict)


def _innermost(field: Field) -> Field:
    return field if field.items is None else _innermost(field.items)


def _structs(fields: Sequence[Field]) -> Iterator[type[msgspec.Struct]]:
    for field in fields:
        inner = field.items or field
        if inner.fields:
            yield inner.type
        yield from _structs(inner.fields)


Leaf = Callable[[Field], Rewrite | None]
"""For a field that holds times, the function for one of them; None for any other field."""


def _struct(struct: type[msgspec.Struct], fields: Sequence[Field], leaf: Leaf) -> Rewrite | None:
    config = struct.__struct_config__
    first = 0 if config.tag is None else 1
    inner = [(first + place, field.key, rewrite) for place, field in enumerate(fields) if (rewrite := _member(field, leaf))]
    if not inner:
        return None
    if config.array_like:
        return partial(_members, _ARRAY.decode, [(place, rewrite) for place, _, rewrite in inner])
    return partial(_members, _OBJECT.decode, [(key, rewrite) for _, key, rewrite in inner])


def _members(decode: Callable[[bytes], Any], inner: Sequence[tuple[Any, Rewrite]], value: bytes) -> bytes:
    members = decode(value)
    size = len(members)
    changes = False
    for place, rewrite in inner:
        if place < size if isinstance(place, int) else place in members:
            before = bytes(members[place])
            after = rewrite(before)
            if after is not before:
                members[place] = msgspec.Raw(after)
                changes = True
    return msgspec.json.encode(members) if changes else value


def _member(field: Field, leaf: Leaf) -> Rewrite | None:
    if field.items is None and not field.fields:
        return leaf(field)
    if field.items is not None:
        item = _member(field.items, leaf)
        each = _entries if field.type is dict else _items
        inner: Rewrite | None = None if item is None else partial(each, item)
    else:
        inner = _struct(field.type, field.fields, leaf) if field.fields else None
    if inner is None:
        return None
    whole = inner
    return lambda value: value if value == b"null" else whole(value)


def _items(item: Rewrite, value: bytes) -> bytes:
    before = list(map(bytes, _ARRAY.decode(value)))
    after = list(map(item, before))
    same = all(map(is_, before, after))
    return value if same else msgspec.json.encode(list(map(msgspec.Raw, after)))


def _entries(item: Rewrite, value: bytes) -> bytes:
    before = {key: bytes(raw) for key, raw in _OBJECT.decode(value).items()}
    after = {key: item(raw) for key, raw in before.items()}
    same = all(map(is_, before.values(), after.values()))
    return value if same else msgspec.json.encode({key: msgspec.Raw(raw) for key, raw in after.items()})


def _cut_leaf(field: Field) -> Rewrite | None:
    return _cut_text if field.type is datetime else None


def _cut_text(value: bytes) -> bytes:
    return msgspec.json.encode(cut(_TEXT.decode(value))) if _FURTHER_DIGITS.search(value) else value


def _value_leaf(field: Field) -> Rewrite | None:
    if field.type is Decimal:
        return partial(_check_decimal, field.key)
    if field.arrow == pa.int64() and not is_time(field):
        return partial(_integer, field.key)
    if not is_time(field):
        return None
    read = time_reader(field)

    def rewrite(value: bytes) -> bytes:
        number = json_number(value)
        before = number if number is not None else _TEXT.decode(value) if value[:1] == b'"' else value
        after = read(before)
        return value if after is before else msgspec.json.encode(after)

    return rewrite


def _check_decimal(key: str, value: bytes) -> bytes:
    if value[:1] == b'"':
        text_decimal(key, _TEXT.decode(value))
    return value


def text_decimal(key: str, value: Any) -> Any:
    """The decimal of a text; any other value stays as it is. Raises Reject."""
    try:
        return decimal_of_text(value) if isinstance(value, str) else value
    except Reject as reject:
        raise Reject(reject.reason, f"field {key}: {reject.detail}: {value[:_DETAIL_CHARACTERS]!r}") from reject


def _integer(key: str, value: bytes) -> bytes:
    number = json_number(value)
    if number is None or isinstance(number, int):
        return value
    try:
        return str(integer_of(number)).encode()
    except Reject as reject:
        if reject.reason == "invalid_value":
            return value  # msgspec names the type that it expects
        raise Reject(reject.reason, f"field {key}: {reject.detail}: {value[:_DETAIL_CHARACTERS].decode()}") from reject


def json_number(value: bytes) -> int | Decimal | None:
    """A number of JSON with all its digits; None for any other value."""
    if value.isdigit():
        return int(value) if len(value) < _LONG else Decimal(value.decode())
    return Decimal(value.decode()) if value[:1] in _NUMBER_STARTS else None


def values_by_name(event: type[Event], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of an event's fields by key, with its times and decimals read; raises Reject."""
    return _times_of_fields(value_readers(event), values)


def _has_reader(field: Field) -> bool:
    """Whether a field has values that are read here: times, and decimals in texts."""
    if field.items is not None:
        return _has_reader(field.items)
    return is_time(field) or field.type is Decimal or any(map(_has_reader, field.fields))


Readers = Mapping[str, ReadTime]
"""The readers of fields that are times or decimals, or hold some, by key."""


@lru_cache(maxsize=4096)
def value_readers(event: type[Event]) -> Readers:
    """The readers of an event type, of texts that msgspec would not read as JSON's fields do."""
    return _readers(event_fields(event))


def value_reader(field: Field) -> ReadTime | None:
    """The reader of one field's parsed values; None if they stay as they are."""
    return _by_value(field) if _has_reader(field) else None


def _readers(fields: Sequence[Field]) -> Readers:
    return {field.key: _by_value(field) for field in fields if _has_reader(field)}


def _by_value(field: Field) -> ReadTime:
    """The reader of one field's parsed value; what is not of its type stays as it is."""
    if is_time(field):
        return time_reader(field)
    if field.type is Decimal:
        return partial(text_decimal, field.key)
    if field.items is not None:
        item = _by_value(field.items)
        if field.type is dict:
            return lambda value: {key: item(inner) for key, inner in value.items()} if isinstance(value, dict) else value
        return lambda value: list(map(item, value)) if isinstance(value, list) else value
    inner = _readers(field.fields)
    return lambda value: _times_of_fields(inner, value) if isinstance(value, dict) else value


def _times_of_fields(readers: Readers, values: Mapping[str, Any]) -> Mapping[str, Any]:
    changes = {key: read(value) for key, read in readers.items() if (value := values.get(key)) is not None}
    return {**values, **changes}
