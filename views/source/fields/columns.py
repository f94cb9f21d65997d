"""Turns structs into Arrow columns, with the checks that a JSON type cannot express.

A column is built whole, which is fast. Only if that fails, it is halved to find the faulty rows.
"""

import enum
import math
from collections.abc import Callable, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import array, exact_decimals, nearest_decimals, scalar
from tandem.views.instant import EPOCH, FIRST, LAST
from tandem.views.source.event import Field
from tandem.views.source.fields.clock_values import column_value
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.time_notation import CLOCKS

Convert = Callable[[Any], Any]
_SINCE: Final = pa.duration("us")


def column(field: Field, values: Sequence[Any]) -> pa.Array:
    """One field's values as its column; raises what Arrow raises, or Reject, if any of them does not fit."""
    if field.type is float:
        numbers = array(values, field.arrow)
        if pc.all(pc.is_finite(numbers), min_count=0).as_py() is False:
            raise Reject("out_of_range", f"field {field.name} is not a finite number")
        return pc.add(numbers, 0.0)  # -0.0 becomes 0.0
    if field.type is datetime and (times := _times(field, values)) is not None:
        return times
    convert = _convert(field)
    return array(values if convert is None else [convert(value) for value in values], field.arrow)


def _times(field: Field, values: Sequence[Any]) -> pa.Array | None:
    """Times as their column, three times as fast as Arrow converts them; None if each has to be looked at by itself."""
    if {*map(type, values)} != {datetime}:
        return None
    try:
        since = array([value - EPOCH for value in values], _SINCE)
    except TypeError:  # a time without a zone
        return None
    bounds = pc.min_max(since.cast(pa.int64())).as_py()
    return since.view(field.arrow) if FIRST <= bounds["min"] <= bounds["max"] <= LAST else None


def unfit(field: Field, value: Any) -> Reject | None:
    """Why one value does not fit its column, None if it does."""
    try:
        convert = _convert(field)
        scalar(value if convert is None else convert(value), field.arrow)
    except Reject as reject:
        return reject
    except Exception as error:  # noqa: BLE001  errors of Arrow and of the value all mean that it does not fit
        return _misfit(field, error)
    return None


def misfits(field: Field, values: Sequence[Any]) -> dict[int, Reject]:
    """The rows whose value the column cannot hold, found by halving; empty if the column can be built."""
    try:
        column(field, values)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a converter or Arrow raises, the value does not fit
        if len(values) == 1:
            return {0: error if isinstance(error, Reject) else _misfit(field, error)}
        middle = len(values) // 2
        right = misfits(field, values[middle:])
        return misfits(field, values[:middle]) | {middle + row: reject for row, reject in right.items()}
    return {}


def _misfit(field: Field, error: Exception) -> Reject:
    if isinstance(error, OverflowError):
        return Reject("out_of_range", f"field {field.name} does not fit 64 bits")
    return Reject("invalid_value", f"field {field.name}: {error}")


def _convert(field: Field) -> Convert | None:
    """The function that converts one value for Arrow; None if Arrow takes the value unchanged."""
    convert = _convert_present(field)
    if convert is None or not field.optional:
        return convert
    return lambda value: None if value is None else convert(value)


def _convert_present(field: Field) -> Convert | None:
    if field.type is float:
        return lambda value: _finite(field, value)
    if field.type is datetime:
        return lambda value: _zoned(field, value)
    if field.type in CLOCKS:
        return column_value
    if field.type is Decimal:
        return _decimals(field)
    if field.type is UUID:
        return str
    if isinstance(field.type, type) and issubclass(field.type, enum.Enum):
        return attrgetter("_value_")
    if field.items is not None:
        return _convert_map(field.items) if field.type is dict else _convert_list(field.items)
    if field.fields:
        return _convert_struct(field.fields)
    return None


def _convert_list(items: Field) -> Convert | None:
    convert = _convert(items)
    return None if convert is None else lambda values: [convert(value) for value in values]


def _convert_map(values: Field) -> Convert:
    """The pairs of a map in the order of their keys, so that equal maps are equal columns."""
    convert = _convert(values)
    if convert is None:
        return lambda value: sorted(value.items(), key=_key_of_pair)
    return lambda value: [(key, convert(value[key])) for key in sorted(value)]


def _key_of_pair(pair: tuple[str, Any]) -> str:
    return pair[0]


def _convert_struct(fields: Sequence[Field]) -> Convert:
    parts = [(field.name, _convert(field)) for field in fields]

    def convert_struct(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) if convert is None else convert(getattr(value, name)) for name, convert in parts}

    return convert_struct


def _finite(field: Field, value: float) -> float:
    if not math.isfinite(value):
        raise Reject("out_of_range", f"field {field.name} is not a finite number")
    return value + 0.0


def _decimals(field: Field) -> Convert:
    """The function from a decimal to the same with the digits of its column: all that it has, or rounded if the field says so."""
    in_scale = exact_decimals(field.arrow) if field.rounding is None else nearest_decimals(field.arrow)

    def convert(value: Any) -> Any:
        if not isinstance(value, Decimal):  # in an event of a user's test: Arrow takes only integers
            return value
        try:
            return in_scale(value)
        except ArithmeticError:
            digits = f"{field.arrow.precision} digits, {field.arrow.scale} of them after the point"
            raise Reject("out_of_range", f"field {field.name} is not a finite decimal of {digits}: {str(value)[:40]}") from None

    return convert


def _zoned(field: Field, value: datetime) -> datetime:
    if value.tzinfo is None:
        raise Reject("no_zone", f"field {field.name} has no zone: {value.isoformat()}")
    if value.year in (MINYEAR, MAXYEAR):
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise Reject("out_of_range", f"field {field.name} is not a year of UTC: {value.isoformat()}") from None
    return value
