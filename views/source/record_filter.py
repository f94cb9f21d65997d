"""Filters of the records in shared topics, by which a source takes its own: `Source(only=...)`."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from types import FunctionType
from typing import Any

from views.errors import DefinitionError
from views.source.decoder import check_function

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


Only = ByHeader | ByField | Callable[..., bool]
"""Or a function of the project, which takes what a decoder takes and says whether the record is one of the source's."""


def by_header(name: str, *values: str) -> ByHeader:
    """The records whose header of this name is one of the values. Raises DefinitionError."""
    _check("by_header", name, values, (str,))
    return ByHeader(name, values)


def by_field(name: str, *values: Value) -> ByField:
    """The records whose value is a JSON object in which the field of this name is one of the values. Raises DefinitionError."""
    _check("by_field", name, values, (str, int, bool))
    return ByField(name, values)


def check_only(only: Only) -> None:
    """Raise DefinitionError unless it is a record filter."""
    if isinstance(only, FunctionType):
        check_function("only", only)
    elif not isinstance(only, ByHeader | ByField):
        raise DefinitionError(
            f"only {only!r} tells no records apart: by_header('type', 'order'), by_field('type', 'order'), or a function of the "
            "project that takes the value's bytes and gives a bool"
        )


def only_value(only: Only) -> list[Any]:
    """The filter's kind and parameters, as JSON can hold them."""
    assert isinstance(only, ByHeader | ByField)
    return [type(only).__name__, only.name, sorted(map(repr, only.values))]


def only_name(only: Only) -> str:
    """The filter's name for readers: `by_field('type', 'order')`, `my_function`."""
    if isinstance(only, ByHeader | ByField):
        return f"{'by_header' if isinstance(only, ByHeader) else 'by_field'}({', '.join(map(repr, (only.name, *only.values)))})"
    return str(only.__name__)


def only_parameters(only: Only | None) -> tuple[str, ...]:
    """The parts of a record that the filter reads besides its value."""
    if isinstance(only, FunctionType):
        return tuple(signature(only).parameters)[1:]
    return ("headers",) if isinstance(only, ByHeader) else ()


def _check(which: str, name: object, values: tuple[object, ...], types: tuple[type, ...]) -> None:
    if not isinstance(name, str) or not name or not values or not all(type(value) in types for value in values):
        kinds = " or ".join(one.__name__ for one in types)
        raise DefinitionError(f"{which}{(name, *values)!r}: it takes a name and one or more values, each {kinds}")
