"""Events for the test of definitions that were begun from a schema: no record was read."""

import enum
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, get_args, get_origin
from uuid import UUID

import msgspec

from tandem.views.source.event import Field, event_fields


def example_event(of: type[msgspec.Struct], number: int) -> Any:
    """An event in which every value shows the number; lists and maps are empty."""
    return of(**{field.name: _value(field, number) for field in event_fields(of)})


def _value(field: Field, number: int) -> Any:
    kind: Any = field.type
    if field.items is not None:
        return {} if kind is dict else []
    if get_origin(kind) is Literal:
        return get_args(kind)[number % len(get_args(kind))]
    if kind is Decimal:
        return Decimal(number).scaleb(-field.arrow.scale)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return example_event(kind, number)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [*kind][number % len(kind)]
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    values: dict[Any, Any] = {
        bool: bool(number % 2),
        int: number,
        float: number + 0.5,
        str: f"{field.name} {number}",
        bytes: bytes([number]),
        datetime: at,
        date: at.date(),
        time: time(number),
        timedelta: timedelta(hours=number),
        UUID: UUID(int=number),
    }
    return values[kind]
