"""Event types for formats whose values have names and types: which field takes which value, and the event of these values.

| field            | takes                                                                      |
| ---------------- | -------------------------------------------------------------------------- |
| bool             | boolean                                                                    |
| int              | integer                                                                    |
| float            | float, integer                                                             |
| Decimal          | decimal, integer, string; with a rounding float                            |
| str              | string, enum (its symbol)                                                  |
| bytes            | bytes                                                                      |
| date             | date, string                                                               |
| datetime         | timestamp, string; with Epoch float and integer, with Zone local timestamp |
| time             | time of day, string; with Unit float and integer                           |
| timedelta        | duration, string; with Unit float and integer                              |
| UUID             | uuid, string                                                               |
| Enum, Literal    | string, enum; integer, if its values are integers                          |

A string for another type of field is read as the json decoder reads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final, Literal
from uuid import UUID

import msgspec
import pyarrow as pa

from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import Event, Field, event_fields
from tandem.views.source.fields.aliases import has_aliases, values_by_attribute
from tandem.views.source.fields.reasons import Reject, misfit
from tandem.views.source.fields.times import values_by_name
from tandem.views.source.format import Entries, Unnest, Unnested

Kind = Literal[
    "boolean",
    "integer",
    "float",
    "string",
    "enum",
    "bytes",
    "date",
    "timestamp",
    "local_timestamp",
    "time_of_day",
    "duration",
    "decimal",
    "uuid",
]

_TAKES: Final[dict[Any, frozenset[Kind]]] = {
    bool: frozenset({"boolean"}),
    int: frozenset({"integer"}),
    float: frozenset({"float", "integer"}),
    Decimal: frozenset({"decimal", "string", "integer"}),
    str: frozenset({"string", "enum"}),
    bytes: frozenset({"bytes"}),
    date: frozenset({"date", "string"}),
    datetime: frozenset({"timestamp", "string"}),
    time: frozenset({"time_of_day", "string"}),
    timedelta: frozenset({"duration", "string"}),
    UUID: frozenset({"uuid", "string"}),
}
_NUMBERS: Final[frozenset[Kind | None]] = frozenset({"float", "integer"})


def named_fields(event: type[Event], what: str) -> tuple[Field, ...]:
    """The fields of an event type that `what` fills by name; raises DefinitionError if the type is array_like or has a tag."""
    config = event.__struct_config__
    if config.array_like or config.tag is not None:
        raise DefinitionError(f"{event.__name__}: {what} has fields with names, and neither array_like nor tag")
    return event_fields(event)


def fields_to_unnest(event: type[Event], place: Unnest) -> tuple[tuple[Field, ...], Field]:
    """The fields of the records whose items or entries are the events, and among them the list or map.

    Raises DefinitionError if the event type has no such field, or for entries no struct of a text `key` and a `value`.
    """
    fields = event_fields(event)
    name = place.field if isinstance(place, Entries) else place
    item = next((field for field in fields if field.name == name), None)
    if item is None:
        raise DefinitionError(
            f"unnest: no field {name!r} in {event.__name__}; fields: {listed(str(name), [field.name for field in fields])}"
        )
    if isinstance(place, str):
        several = replace(item, type=list, arrow=pa.list_(item.arrow), items=item, fields=(), optional=True)
    else:
        parts = {field.key: field for field in item.fields}
        if parts.keys() != {"key", "value"} or parts["key"].type is not str:
            raise DefinitionError(
                f"unnest: an entry of a map is a struct of `key: str` and `value`; {event.__name__}.{name} is not one"
            )
        values = parts["value"]
        several = replace(item, type=dict, arrow=pa.map_(pa.string(), values.arrow), items=values, fields=(), optional=True)
    return tuple(several if field is item else field for field in fields), several


def item_values(values: Mapping[str, Any], field: Field) -> Unnested:
    """The values by key of each event of a record: `field` holds the list, or the map, in the order of its keys.

    Raises Reject if the field is missing, or a map has a key twice.
    """
    if field.key not in values:
        raise Reject("missing_field", f"field {field.key} is missing")
    items: Any = values[field.key] or ()
    if isinstance(items, Mapping):
        items = [{"key": key, "value": value} for key, value in items.items()]
    if field.type is dict:
        if len({pair["key"] for pair in items}) < len(items):
            raise Reject("repeated_key", f"field {field.key}: a key of the map occurs twice")
        items = sorted(items, key=itemgetter("key"))
    return Unnested(items, lambda item: {**values, field.key: item})


def takes(field: Field, kind: Kind | None) -> bool:
    """Whether a field that is neither list nor struct takes values of this kind; no field takes the kind None."""
    by_value = _TAKES[int] if field.arrow == pa.int64() else _TAKES[str]
    notation = field.notation
    if field.rounding is not None and kind in _NUMBERS:
        return True
    if notation is not None and (
        ((notation.epoch or notation.unit) and kind in _NUMBERS) or (notation.zone and kind == "local_timestamp")
    ):
        return True
    return kind in _TAKES.get(field.type, by_value)


def advice(kind: Kind | None) -> str:
    """The end of a sentence about a field of another type: the types that take values of this kind."""
    if kind == "local_timestamp":
        return '; declare it as a datetime with a zone, such as Annotated[datetime, Zone("Europe/Berlin")]'
    names = [each.__name__ for each, kinds in _TAKES.items() if kind in kinds]
    return f"; declare it as {' or '.join(names)}" if names else ""


def builder(event: type[Event]) -> Callable[[Mapping[str, Any]], Any]:
    """The function from values by key to the event; no value is the text of a time or decimal. It raises Reject."""
    aliases = has_aliases(event)

    def build(values: Mapping[str, Any]) -> Any:
        try:
            return msgspec.convert(values_by_attribute(event, values) if aliases else values, event)
        except msgspec.ValidationError as error:
            raise misfit(error) from error

    return build


def built(event: type[Event], values: Mapping[str, Any]) -> Any:
    """The event with these values by key; raises Reject if the event type refuses them."""
    try:
        return msgspec.convert(values_by_attribute(event, values_by_name(event, values)), event)
    except msgspec.ValidationError as error:
        raise misfit(error) from error
