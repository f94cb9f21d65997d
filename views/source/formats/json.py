"""Strict JSON: one value is one object of the event type, or it is not an event. With
`max_events_per_record`, one value is an array of such objects.

msgspec refuses trailing characters, wrong types, NaN, missing fields and numbers that no double holds. This module adds:

* A text that a field takes must be UTF-8. Elsewhere a byte that is not UTF-8, or the escape of a lone surrogate, decides nothing.
* A declared key may occur only once in an object, and any key in a map.
* A byte order mark before the value is left out.
* Nesting has a fixed bound. msgspec's own bound depends on the depth of the caller's stack, so that one record could be an event
  in one process and a reject in another.

A decimal in a string is a number as fields.numbers has it. An integer may be written as 5.0 or 1e3.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from tandem.views.definition_text import call
from tandem.views.source.event import Event, Field, event_fields
from tandem.views.source.fields.aliases import json_decode
from tandem.views.source.fields.named_fields import fields_to_unnest, named_fields
from tandem.views.source.fields.numbers import ODD_DECIMAL
from tandem.views.source.fields.reasons import Reject, misfit
from tandem.views.source.fields.rfc3339 import FURTHER_DIGITS
from tandem.views.source.fields.text_values import without_mark
from tandem.views.source.fields.time_reader import is_time
from tandem.views.source.fields.times import cut_in_json, has_maps, value_readers, values_in_json
from tandem.views.source.format import Listed, NestedFormat, Parse, Searched, Unnest, Unnested
from tandem.views.source.formats.json_checks.batch_search import MAX_DEPTH, searches, strict_searches
from tandem.views.source.formats.json_checks.repeated_keys import check_keys, check_maps, check_object
from tandem.views.source.formats.schema_registry import FromRegistry, Kind, SchemaFrame, check_address

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_DAMAGED = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""Any escape; the group has that of a lone surrogate."""
_MARKS: Final = ((b"?", rb"\ue000"), (b"!", rb"\ue001"))
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ODD_DECIMAL: Final = re.compile(ODD_DECIMAL.encode())
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_PLAIN_KEY = re.compile(r'[^"/\\\x00-\x1f\x7f-\x9f]+')
"""A key that JSON writes in one way, unless it writes `\\u`."""


@dataclass(frozen=True)
class Json:
    """The decoder of strict JSON."""

    def parser(self, event: type[Event]) -> Parse:
        """A function from one value to one event; unknown fields are ignored, whatever their values."""
        return _parser(event, alone=True)

    def listed(self, event: type[Event]) -> Listed:
        """Values that are an array of such objects, each of which is read as if it were alone."""
        items = msgspec.json.Decoder(list[msgspec.Raw]).decode

        def split(value: bytes) -> list[bytes]:
            try:
                return list(map(bytes, _decoded(items, value)))
            except Reject as reject:
                value = without_mark(value)
                undamaged = _undamaged(value, *_MARKS[0])
                if reject.reason not in ("utf8", "json"):
                    raise
                try:
                    parts = map(bytes, _decoded(items, undamaged))
                except Reject:
                    raise reject from None
                return list(_places(value, undamaged, parts))

        return Listed(split, _parser(event, alone=False))

    def unnest(self, event: type[Event], place: Unnest) -> Listed:
        """Values that are an object with an array or object in the place of a field; each event is read as if it were alone."""
        named_fields(event, "a value that is unnested")
        fields, several = fields_to_unnest(event, place)
        keys = frozenset(field.key for field in fields)
        closed = event.__struct_config__.forbid_unknown_fields
        return Listed(partial(_unnest, keys, several, closed), self.parser(event))

    def __str__(self) -> str:
        return call("json")


JSON: Final = Json()


@dataclass(frozen=True)
class JsonFromRegistry(FromRegistry):
    """The decoder of JSON after the id of its schema in a registry. The event type alone says what a value is."""

    kind: ClassVar[Kind] = "JSON"

    def format_of(self, text: str, frame: SchemaFrame) -> Json:  # noqa: ARG002  a JSON Schema is not needed to read a value
        """The decoder of every schema."""
        return JSON

    def check(self, event: type[Event], build: Callable[[NestedFormat], Any]) -> None:  # noqa: ARG002  the decoder has it
        """Raise DefinitionError as the decoder of JSON does."""
        build(JSON)

    def __str__(self) -> str:
        return call("json", registry=self.registry)


def json(registry: str | None = None) -> Json | JsonFromRegistry:
    """Decode strict JSON: one value is one object of the event type; with `max_events_per_record`, an array of such objects.

    With the address of a schema `registry`, values begin with the id of their schema, or a header has it.
    """
    return JSON if registry is None else JsonFromRegistry(check_address("json", registry))


def _parser(event: type[Event], *, alone: bool) -> Parse:
    """A function from one value to one event; values of a batch are searched together if they are objects that stand `alone`."""
    fields = event_fields(event)
    decode = json_decode(event)
    keys, colons = frozenset(_keys(fields)), _colons(fields)
    read, cut = values_in_json(event), cut_in_json(event)
    maps = event if has_maps(fields) else None
    any_form = strict(lambda value: decode(read(value)), keys, _colons(fields, in_time=0), maps=maps)
    if any(map(_has_notation, fields)):
        return any_form
    # Nearly all times and numbers are written as msgspec reads them, in passing; other forms cost a second look.
    plain = strict(decode, keys, colons, otherwise=any_form, maps=maps)
    parse, odd = plain, []
    if value_readers(event):
        parse = strict(lambda value: decode(cut(value)), keys, colons, otherwise=any_form, maps=maps)
        odd = [FURTHER_DIGITS]
    if any(map(_has_decimals, fields)):
        parse = _unless(_ODD_DECIMAL, parse, any_form)
        odd.append(ODD_DECIMAL)
    if not alone or maps is not None or not all(map(_PLAIN_KEY.fullmatch, keys)):
        return Searched(parse, plain, searches("|".join(odd))) if odd else plain
    return Searched(parse, _quick(decode, parse), strict_searches(keys, odd, colons=colons))


def _unless(pattern: re.Pattern[bytes], parse: Parse, otherwise: Parse) -> Parse:
    return lambda value: otherwise(value) if pattern.search(value) else parse(value)


def _quick(decode: Callable[[bytes], Any], parse: Parse) -> Parse:
    """The `decode` of msgspec for values of which a search has shown that it reads them right or not at all."""

    def decode_or_parse(value: bytes) -> Any:
        try:
            return decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return parse(value)

    return decode_or_parse


def _unnest(keys: frozenset[str], several: Field, closed: bool, value: bytes) -> Unnested:  # noqa: FBT001  partial gives it
    """An object for each item of the field that holds an array, or each entry of an object. Raises Reject.

    Members that no field takes are left out, unless the event type is `closed` to them and refuses each event.
    """
    value = without_mark(value)
    members = _decoded(_MEMBERS.decode, value)
    if any(value.count(f'"{key}"'.encode()) > 1 for key in keys) or b"\\u" in value:
        check_keys(value, keys)
    if several.key not in members:
        raise Reject("missing_field", f"field {several.key} is missing")
    raw = bytes(members[several.key])
    shared = {key: member for key, member in members.items() if closed or key in keys}
    if raw == b"null":
        return Unnested((), partial(_encode_item, shared, several.key))
    if several.type is not dict:
        return Unnested(_decoded(_ITEMS.decode, raw), partial(_encode_item, shared, several.key))
    pairs = _decoded(_MEMBERS.decode, raw)
    check_object(raw, several.key)
    return Unnested(sorted(pairs.items()), lambda pair: _encode_item(shared, several.key, {"key": pair[0], "value": pair[1]}))


def _encode_item(members: Mapping[str, msgspec.Raw], key: str, item: Any) -> bytes:
    return msgspec.json.encode({**members, key: item})


def strict(
    decode: Callable[[bytes], Any],
    keys: frozenset[str],
    colons: int,
    otherwise: Parse | None = None,
    *,
    maps: type[Event] | None = None,
) -> Parse:
    """The `decode` of msgspec with further checks: UTF-8, a bound of depth, no declared key of `keys` twice.

    A value with damaged texts is decoded twice, with different characters in their place. It has an event if both are equal: then
    no field takes them.

    `colons` is the least number of colons in an accepted value: a value with exactly as many has no repeated key. `otherwise`
    reads values that have an invalid one in a field, such as a time or number in another form. `maps` is the event type if it has
    maps, whose keys must not be repeated either.
    """
    plain = all(_PLAIN_KEY.fullmatch(key) for key in keys)
    written = [f'"{key}"'.encode() for key in sorted(keys)]

    def may_repeat(value: bytes) -> bool:
        for key in written:  # a third of the time of one regular expression for all
            if value.count(key) > 1:
                return True
        return b"\\u" in value

    def parse(value: bytes) -> Any:
        try:
            parsed = _decoded(decode, value)
            if maps is not None:
                check_maps(value, keys, maps)
            elif not plain or (value.count(b":") > colons and may_repeat(value)):
                check_keys(value, keys)
        except Reject as reject:
            if reject.reason in ("invalid_value", "wrong_type") and otherwise is not None:
                return otherwise(value)
            if reject.reason not in ("utf8", "json"):
                raise
            unmarked = without_mark(value)
            return parse(unmarked) if unmarked != value else parse_damaged(value, reject)
        return parsed

    def parse_damaged(value: bytes, reject: Reject) -> Any:
        first, second = (_undamaged(value, *mark) for mark in _MARKS)
        if first == value:
            raise reject
        try:
            parsed, other = parse(first), parse(second)
        except Reject:
            raise reject from None
        if msgspec.json.encode(parsed) != msgspec.json.encode(other):
            raise reject
        return parsed

    return parse


def _undamaged(value: bytes, mark: bytes, escape: bytes) -> bytes:
    """The value with `mark` for each byte that is not UTF-8, and `escape` for each of a lone surrogate; as long as before."""
    if not value.isascii():
        value = _DAMAGED.sub(mark.decode(), value.decode(errors="surrogateescape")).encode()
    return _ESCAPE.sub(lambda match: escape if match[1] else match[0], value) if b"\\u" in value else value


def _places(value: bytes, undamaged: bytes, parts: Iterable[bytes]) -> Iterator[bytes]:
    """What `value` has where `undamaged` has these parts, which follow one another with only separators between them."""
    end = 0
    for part in parts:
        start = undamaged.index(part, end)
        end = start + len(part)
        yield value[start:end]


def _decoded(decode: Callable[[bytes], Any], value: bytes) -> Any:
    """`decode` for values that are UTF-8 and have a bounded depth."""
    try:
        if not value.isascii():
            value.decode()
        if len(value) > MAX_DEPTH and value.count(b"[") + value.count(b"{") > MAX_DEPTH:
            _check_depth(value)
        return decode(value)
    except Reject:
        raise
    except msgspec.ValidationError as error:
        raise misfit(error) from error
    except UnicodeDecodeError as error:
        raise Reject("utf8", f"byte {error.start} is not UTF-8: {error.reason}") from error
    except msgspec.DecodeError as error:
        raise Reject("json", str(error)) from error


def _keys(fields: Sequence[Field]) -> list[str]:
    return [key for field in fields for key in (field.key, *_keys(_inner(field)))]


def _inner(field: Field) -> Sequence[Field]:
    return field.fields or (_inner(field.items) if field.items else ())


def _has_decimals(field: Field) -> bool:
    return (
        field.type is Decimal
        or any(map(_has_decimals, _inner(field)))
        or (field.items is not None and _has_decimals(field.items))
    )


def _has_notation(field: Field) -> bool:
    """Whether annotations say how a field's times are written, or those in it."""
    return (
        (field.notation is not None and is_time(field)) or any(map(_has_notation, _inner(field))) or _has_notation_in_items(field)
    )


def _has_notation_in_items(field: Field) -> bool:
    return field.items is not None and _has_notation(field.items)


def _colons(fields: Sequence[Field], in_time: int = 2) -> int:
    """The least number of colons in an accepted value: one for a required key, `in_time` in a time of day."""
    count = 0
    for field in fields:
        if field.required:
            count += 1
            if not field.optional:
                count += in_time if field.type is datetime else _colons(field.fields, in_time)
    return count


def _check_depth(value: bytes) -> None:
    depth = 0
    for byte in _STRING.sub(b"", value):
        if byte in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Reject("json", f"nested more than {MAX_DEPTH} deep")
        elif byte in b"]}":
            depth -= 1
