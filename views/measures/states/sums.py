"""Sums that no data can overflow: the states that totals and means share.

A sum is one column where 10^18 addends cannot overflow it. Otherwise an addend beyond a bound is added to further columns, which
are null unless there was one. Each event is compared with the bound by itself, so the states stay sums and are the same for every
split of the events.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.measures.measure import Facts, State
from tandem.views.source.value_types import HUGE, ValueType

_NARROW_DIGITS: Final = 18
_BOUND_DIGITS: Final = 20
"""Addends below 10^20 smallest units: 10^18 of them stay below the 10^38 that a decimal column holds."""

_LIMB: Final = 10**19
"""Larger addends are split at this many smallest units; the sum of 10^18 of either part stays below 10^38."""

_LIMIT: Final = 2.0**900
_SHRINK: Final = 2.0**-128
"""Doubles of at least 2^900 are divided by 2^128 before they are added up: by a power of two, so nothing is lost. So the sums of
10^18 smaller or larger ones stay finite."""

SUMS: Final = Facts(
    merge="one addition per column",
    inverse="yes, but not whether any value is left",
    source="addition in 128 bits; what has 10^20 smallest units or more is added up in two parts, split at 10^19",
)
DOUBLE_SUMS: Final = Facts(
    merge="one addition per column",
    inverse="no: sums are rounded",
    source="IEEE 754 addition; what is 2^900 or more is added up apart, 2^128 times smaller",
)


def sum_states(value: ValueType) -> tuple[State, ...]:
    """The states of the sum of a number: one, or three for large decimals and integers, or two for doubles."""
    if value.kind == "float":
        limit, shrink = repr(_LIMIT), repr(_SHRINK)
        return (
            State("sum", pa.float64(), f"sum(CASE WHEN abs({{0}}) < {limit}::DOUBLE THEN {{0}} END)", "sum({0})"),
            State(
                "excess",
                pa.float64(),
                f"sum(CASE WHEN abs({{0}}) >= {limit}::DOUBLE THEN {{0}} * {shrink}::DOUBLE END)",
                "sum({0})",
            ),
        )
    if pa.types.is_int64(value.arrow):
        return (State("sum", HUGE, "sum({0})", "sum({0})"),)
    scale = value.arrow.scale
    type_ = pa.decimal128(38, scale)
    if value.arrow.precision <= _NARROW_DIGITS:
        return (State("sum", type_, "sum({0})", "sum({0})"),)
    bound = f"CAST('{Decimal(10) ** (_BOUND_DIGITS - scale):f}' AS DECIMAL(38,{scale}))"
    small = f"{{0}} > -{bound} AND {{0}} < {bound}"
    large = f"CASE WHEN NOT ({small}) THEN CAST(replace(CAST({{0}} AS VARCHAR), '.', '') AS HUGEINT)"
    return (
        State("sum", type_, f"sum(CASE WHEN {small} THEN {{0}} END)", "sum({0})"),
        State("high", HUGE, f"sum({large} // {_LIMB} END)", "sum({0})"),
        State("low", HUGE, f"sum({large} % {_LIMB} END)", "sum({0})"),
    )


def exact_sums(columns: Sequence[pa.Array]) -> list[int | None]:
    """The sums of integers or decimals as counts of the smallest unit, from their states; null for no addend."""
    sums = arrays.unscaled(columns[0])
    if len(columns) == 1 or columns[1].null_count == len(sums):
        return sums
    parts = zip(sums, arrays.unscaled(columns[1]), arrays.unscaled(columns[2]), strict=True)
    return [small if high is None or low is None else (small or 0) + high * _LIMB + low for small, high, low in parts]


def float_sums(columns: Sequence[pa.Array], divisor: npt.NDArray[np.float64] | None = None) -> pa.Array:
    """The sums of doubles, each divided by `divisor`, from their states; null for no addend, and for a result that overflows."""
    plain, excess = map(arrays.doubles, columns)
    some, large = arrays.validity(columns[0]), arrays.validity(columns[1])
    by = np.ones(len(plain)) if divisor is None else divisor
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        result = np.where(some, plain, 0.0) / by
        result = np.where(large, result + np.where(large, excess, 0.0) / by / _SHRINK, result)
    return arrays.from_numpy(result, pa.float64(), (some | large) & np.isfinite(result))
