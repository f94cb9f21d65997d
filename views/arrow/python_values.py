"""Python values as Arrow arrays, without pandas and without a digit lost.

At its first conversion of Python values pyarrow imports pandas, to recognise pandas' own values. That takes seconds where
pandas is installed, which a command that decodes ten lines would spend on nothing: no such value comes from a decoder.
"""

import sys
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, DecimalException, Inexact, InvalidOperation
from functools import cache
from importlib.abc import MetaPathFinder
from threading import get_ident
from typing import Any

import pyarrow as pa


def array(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """The values as an array of the type; raises what pyarrow raises if one does not fit."""
    do_without_pandas()
    return pa.array(values, arrow)


def scalar(value: Any, arrow: pa.DataType) -> pa.Scalar:
    """The value as a scalar of the type; raises what pyarrow raises if it does not fit."""
    do_without_pandas()
    return pa.scalar(value, arrow)


def exact_decimals(arrow: pa.Decimal128Type) -> Callable[[Decimal], Decimal]:
    """The function from a decimal to the same in the type's scale; it raises ArithmeticError for more digits or NaN.

    Every decimal from outside passes here before Arrow sees it. Arrow looks up the power of ten for a negative exponent
    without a bound: it made 0 of 1E-77, and 1E-99999999 ended the process.
    """
    return _scaled(arrow.precision, arrow.scale, (InvalidOperation, Inexact))


def nearest_decimals(arrow: pa.Decimal128Type) -> Callable[[Decimal], Decimal]:
    """The function from a decimal to the nearest in the type's scale, half to even; it raises ArithmeticError beyond the type."""
    return _scaled(arrow.precision, arrow.scale, (InvalidOperation,))


@cache
def _scaled(precision: int, scale: int, traps: tuple[type[DecimalException], ...]) -> Callable[[Decimal], Decimal]:
    arithmetic = Context(precision, ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=list(traps))
    unit = Decimal((0, (1,), -scale))

    def convert(value: Decimal) -> Decimal:
        if not value.is_finite():
            raise InvalidOperation(f"{value} is not finite")
        return value.quantize(unit, None, arithmetic)

    return convert


class _NoPandas(MetaPathFinder):
    """Hide pandas from the thread that makes this; another thread may import pandas at that moment."""

    def __init__(self) -> None:
        self.thread = get_ident()

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002  the protocol's
        if fullname == "pandas" and get_ident() == self.thread:
            raise ModuleNotFoundError(f"{fullname} is not needed here", name=fullname)


@cache
def do_without_pandas() -> None:
    """Let pyarrow find no pandas at its first conversion; it asks once. Whoever imports pandas afterwards gets it."""
    if "pandas" not in sys.modules:
        absent = _NoPandas()
        sys.meta_path.insert(0, absent)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(absent)
