"""Filters by which a source selects its own records of shared topics: `Source(record_filter=...)`."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from types import FunctionType
from typing import Any

from tandem.views.errors import DefinitionError
from tandem.views.source.decoder import check_function

Value = str | int | bool


@dataclass(frozen=True)
class ByHeader:
    """The records whose header of this name is one of the values as UTF-8; the last one counts if the header is repeated."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class ByField:
    """The records whose value is a JSON object in which the field of this name is one of the values."""

    name: str
    values: tuple[Value, ...]


RecordFilter = ByHeader | ByField | Callable[..., bool]
"""Or a function of the project, which takes what a decoder takes and returns whether the record is the source's."""


def by_header(name: str, *values: str) -> ByHeader:
    """The records whose header of this name is one of the values. Raises DefinitionError."""
    _check("by_header", name, values, (str,))
    return ByHeader(name, values)


def by_field(name: str, *values: Value) -> ByField:
    """The records whose value is a JSON object in which the field of this name is one of the values. Raises DefinitionError."""
    _check("by_field", name, values, (str, int, bool))
    return ByField(name, values)


def check_record_filter(record_filter: RecordFilter) -> None:
    """Raise DefinitionError unless it is a record filter."""
    if isinstance(record_filter, FunctionType):
        check_function("record_filter", record_filter)
    elif not isinstance(record_filter, ByHeader | ByField):
        raise DefinitionError(
            f"record_filter {record_filter!r} must be by_header('type', 'order'), by_field('type', 'order'), or a function of "
            "the project that takes the value's bytes and returns a bool"
        )


def record_filter_value(record_filter: RecordFilter) -> list[Any]:
    """The filter's kind and parameters, as JSON can hold them."""
    assert isinstance(record_filter, ByHeader | ByField)
    return [type(record_filter).__name__, record_filter.name, sorted(map(repr, record_filter.values))]


def record_filter_name(record_filter: RecordFilter) -> str:
    """The filter's name for readers: `by_field('type', 'order')`, `my_function`."""
    if isinstance(record_filter, ByHeader | ByField):
        which = "by_header" if isinstance(record_filter, ByHeader) else "by_field"
        return f"{which}({', '.join(map(repr, (record_filter.name, *record_filter.values)))})"
    return str(record_filter.__name__)


def record_filter_parameters(record_filter: RecordFilter | None) -> tuple[str, ...]:
    """The parts of a record that the filter reads besides its value."""
    if isinstance(record_filter, FunctionType):
        return tuple(signature(record_filter).parameters)[1:]
    return ("headers",) if isinstance(record_filter, ByHeader) else ()


def _check(which: str, name: object, values: tuple[object, ...], types: tuple[type, ...]) -> None:
    if not isinstance(name, str) or not name or not values or not all(type(value) in types for value in values):
        kinds = " or ".join(one.__name__ for one in types)
        raise DefinitionError(f"{which}{(name, *values)!r}: it takes a name and one or more values, each {kinds}")
