"""Python values as Arrow arrays, without pandas and without a digit lost.

At its first conversion of Python values pyarrow imports pandas, to recognise pandas' own values. That takes seconds where
pandas is installed, which a command that decodes ten lines would spend on nothing: no such value comes from a decoder.
"""

import sys
from collections.abc import Sequence
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


def exact_decimal(value: Decimal, arrow: pa.Decimal128Type) -> Decimal:
    """The value with the type's scale and all its digits; raises ArithmeticError if it has more or is not finite.

    Every decimal from outside passes here before Arrow sees it. Arrow looks up the power of ten for a negative exponent
    without a bound: it made 0 of 1E-77, and 1E-99999999 ended the process.
    """
    return _quantize(value, *_scaled(arrow.precision, arrow.scale, (InvalidOperation, Inexact)))


def round_decimal(value: Decimal, arrow: pa.Decimal128Type) -> Decimal:
    """The value with the type's scale, half to even; raises ArithmeticError if it is too large or not finite."""
    return _quantize(value, *_scaled(arrow.precision, arrow.scale, (InvalidOperation,)))


def _quantize(value: Decimal, scale: Decimal, arithmetic: Context) -> Decimal:
    if not value.is_finite():
        raise InvalidOperation(f"{value} is not finite")
    return value.quantize(scale, context=arithmetic)


@cache
def _scaled(precision: int, scale: int, traps: tuple[type[DecimalException], ...]) -> tuple[Decimal, Context]:
    """A number with the scale, and the arithmetic in which what the type does not hold is an error."""
    arithmetic = Context(precision, ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=list(traps))
    return Decimal((0, (1,), -scale)), arithmetic


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
