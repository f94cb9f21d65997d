"""How many values of an event were rounded to the scale of their field; see Scale."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from tandem.views.arrow.python_values import array, nearest_decimals
from tandem.views.source.event import Event, Field, any_field, event_fields

ROUNDED: Final = "_rounded"
"""The column with the number of an event's values that were rounded, of an event type with a field that rounds."""


def roundings_schema(event: type[Event]) -> pa.Schema:
    """The column ROUNDED, if a field of the event type rounds."""
    return pa.schema([(ROUNDED, pa.int32())] if rounds(event_fields(event)) else [])


def rounds(fields: Sequence[Field]) -> bool:
    """Whether a field rounds, at any depth."""
    return any_field(fields, lambda field: field.rounding is not None)


def roundings_by_event(fields: Sequence[Field], structs: Sequence[msgspec.Struct]) -> pa.Array:
    """For each struct, whose values fit their columns, the number of its values that were rounded."""
    rounding = [field for field in fields if rounds((field,))]
    return array([_in_struct(rounding, struct) for struct in structs], pa.int32())


def total_roundings(events: pa.Table) -> int:
    """How many values of these events were rounded."""
    return sum(events[ROUNDED].to_pylist()) if ROUNDED in events.column_names else 0


def _in_struct(rounding: Sequence[Field], struct: msgspec.Struct) -> int:
    return sum(_in_value(field, getattr(struct, field.name)) for field in rounding)


def _in_value(field: Field, value: Any) -> int:
    if value is None:
        return 0
    if field.items is not None:
        return sum(_in_value(field.items, item) for item in (value.values() if field.type is dict else value))
    if field.fields:
        return _in_struct([inner for inner in field.fields if rounds((inner,))], value)
    return int(isinstance(value, Decimal) and nearest_decimals(field.arrow)(value) != value)
