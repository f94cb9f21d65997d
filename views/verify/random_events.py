"""Random events of a type, for tests of laws: Hypothesis strategies made from its fields.

Needs Hypothesis.
"""

import enum
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, get_args
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from tandem.views.errors import TandemError
from tandem.views.instant import APPEND_TIME
from tandem.views.source.event import Event, Field, event_fields
from tandem.views.source.fields.event_time import instant_of, time_path
from tandem.views.source.source import Source

_LONGEST: Final = 20
_DIGITS: Final = 12


def events(source: Source) -> st.SearchStrategy[Event]:
    """Events as a decoder could return them: constraints, plausible times and the type's own checks hold.

    Small and special values are more frequent than in real data. Drawing raises hypothesis.errors.Unsatisfiable if the type's own
    checks refuse nearly all events.
    """
    fields = event_fields(source.event)
    path = () if source.event_time == APPEND_TIME else time_path(source.event, source.event_time)
    return _structs(source.event, fields, path, source.plausible)


Bounds = tuple[datetime, datetime]


def _structs(
    struct: type[msgspec.Struct], fields: Sequence[Field], path: Sequence[Field], plausible: Bounds
) -> st.SearchStrategy[Any]:
    """Structs of these fields; the time at the end of the path, which begins among them, is plausible."""
    values = {
        field.name: _plausible_values(path, plausible) if path and field.name == path[0].name else _values(field)
        for field in fields
    }
    return st.fixed_dictionaries(values).map(lambda drawn: _made(struct, drawn)).filter(lambda event: event is not None)


def _plausible_values(path: Sequence[Field], plausible: Bounds) -> st.SearchStrategy[Any]:
    field, *inner = path
    if inner:
        return _structs(field.type, field.fields, inner, plausible)
    low, high = (bound.astimezone(UTC).replace(tzinfo=None) for bound in plausible)
    if field.type is date:
        return st.dates(low.date(), high.date()).filter(lambda day: plausible[0] <= instant_of(field, day) < plausible[1])
    return st.datetimes(low, high, timezones=st.just(UTC)).filter(lambda time: time < plausible[1])


def _made(struct: type[msgspec.Struct], values: dict[str, Any]) -> Any:
    """The event; None if its type refuses the values."""
    try:
        return struct(**values)
    except (TypeError, ValueError):
        return None


def _values(field: Field) -> st.SearchStrategy[Any]:
    present = _present(field, dict(field.constraints))
    return st.none() | present if field.optional else present


def _present(field: Field, limits: dict[str, Any]) -> st.SearchStrategy[Any]:
    if field.items is not None:
        least, most = _sizes(limits)
        if field.type is dict:
            return st.dictionaries(st.text(max_size=_LONGEST), _values(field.items), min_size=least, max_size=most)
        return st.lists(_values(field.items), min_size=least, max_size=most)
    if field.fields:
        struct: type[msgspec.Struct] = field.type
        parts = {one.name: _values(one) for one in field.fields}
        return st.fixed_dictionaries(parts).map(lambda drawn: _made(struct, drawn)).filter(lambda event: event is not None)
    if isinstance(field.type, type) and issubclass(field.type, enum.Enum):
        return st.sampled_from(list(field.type))
    if choices := get_args(field.type):
        return st.sampled_from(choices)
    values = _scalars(field, limits)
    within = {name: limit for name, limit in limits.items() if name in _HOLDS}
    return values.filter(lambda value: all(_HOLDS[name](value, limit) for name, limit in within.items()))


_HOLDS: Final[dict[str, Any]] = {
    "gt": lambda value, limit: value > limit,
    "ge": lambda value, limit: value >= limit,
    "lt": lambda value, limit: value < limit,
    "le": lambda value, limit: value <= limit,
    "multiple_of": lambda value, limit: value % limit == 0,
}


def _scalars(field: Field, limits: dict[str, Any]) -> st.SearchStrategy[Any]:
    low, high = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
    least, most = _sizes(limits)
    if field.type is int:
        step = limits.get("multiple_of", 1)
        first = -(2**63) if low is None else low
        last = 2**63 - 1 if high is None else high
        return st.integers(-(-first // step), last // step).map(lambda number: number * step)
    if field.type is float:
        return st.floats(low, high, allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
    if field.type is Decimal:
        most = Decimal(10) ** (_DIGITS - field.arrow.scale)
        return st.decimals(-most if low is None else low, most if high is None else high, places=field.arrow.scale)
    if field.type is str and "pattern" in limits:
        return st.from_regex(limits["pattern"]).filter(lambda text: least <= len(text) <= limits.get("max_length", len(text)))
    if field.type is str:
        return st.text(min_size=least, max_size=most)
    if field.type is bytes:
        return st.binary(min_size=least, max_size=most)
    if field.type is datetime:
        return st.datetimes(timezones=st.just(UTC))
    if field.type is timedelta:
        return st.integers(-(2**63), 2**63 - 1).map(lambda number: timedelta(microseconds=number))
    plain = {bool: st.booleans(), date: st.dates(), time: st.times(), UUID: st.uuids()}
    if field.type not in plain:
        raise TandemError(f"no random values are known for the type {field.type!r} of field {field.name}")
    return plain[field.type]


def _sizes(limits: dict[str, Any]) -> tuple[int, int]:
    least: int = limits.get("min_length", 0)
    return least, limits.get("max_length", least + _LONGEST)
