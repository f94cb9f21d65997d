"""Keys that occur twice in one object of JSON: no value is chosen, the record is rejected.

The keys are the fields' of an event type, in any object, and every key of a map.
"""

from collections import Counter
from collections.abc import Sequence
from json import loads
from typing import Any

import msgspec

from tandem.views.source.event import Event, Field, event_fields
from tandem.views.source.fields.reasons import Reject

_DETAIL_CHARACTERS = 40


class _Repeating(dict[str, Any]):
    """An object in which the key `repeated` occurs `times` times; no field has it, but a map may."""

    repeated: str
    times: int


def check_keys(value: bytes, keys: frozenset[str]) -> None:
    """Refuse one of these keys that occurs twice in one object, at any depth."""
    _parse(value, keys)


def check_maps(value: bytes, keys: frozenset[str], event: type[Event]) -> None:
    """Refuse as `check_keys` does, and any key that occurs twice in a map of the event type."""
    parsed, repeats = _parse(value, keys)
    if repeats:
        _check_struct(event, event_fields(event), parsed)


def check_object(value: bytes, name: str) -> None:
    """Refuse a key that occurs twice in the map that this object is, of the field `name`."""
    parsed, _ = _parse(value, frozenset())
    if isinstance(parsed, _Repeating):
        raise _refusal(parsed.repeated, parsed.times, f"the map {name}")


def _parse(value: bytes, keys: frozenset[str]) -> tuple[Any, bool]:
    """The value, and whether it has an object in which another key is repeated. Raises Reject."""
    repeats = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(items)
        if len(members) == len(items):
            return members
        several = [(name, times) for name, times in Counter(name for name, _ in items).items() if times > 1]
        for name, times in several:
            if name in keys:
                raise _refusal(name, times, "one object")
        repeats.append(True)
        repeating = _Repeating(members)
        repeating.repeated, repeating.times = several[0]
        return repeating

    # Numbers stay text: parsing an ignored integer of ten thousand digits would cost time.
    return loads(value, object_pairs_hook=pairs, parse_int=str, parse_float=str), bool(repeats)


def _check_struct(struct: type[msgspec.Struct], fields: Sequence[Field], parsed: Any) -> None:
    """Check the maps of an object, or of the array that an array_like struct is."""
    config = struct.__struct_config__
    for place, field in enumerate(fields, 0 if config.tag is None else 1):
        if isinstance(parsed, dict):
            _check_value(field, parsed.get(field.key))
        elif isinstance(parsed, list) and place < len(parsed):
            _check_value(field, parsed[place])


def _check_value(field: Field, parsed: Any) -> None:
    if field.items is not None:
        if field.type is dict and isinstance(parsed, _Repeating):
            raise _refusal(parsed.repeated, parsed.times, f"the map {field.key}")
        for item in parsed.values() if isinstance(parsed, dict) else parsed if isinstance(parsed, list) else ():
            _check_value(field.items, item)
    elif field.fields:
        _check_struct(field.type, field.fields, parsed)


def _refusal(name: str, times: int, place: str) -> Reject:
    return Reject("repeated_key", f"key {name[:_DETAIL_CHARACTERS]!r} occurs {times} times in {place}")
