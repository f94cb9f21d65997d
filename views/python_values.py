"""Python values as Arrow arrays, without pandas.

At its first conversion of Python values pyarrow imports pandas, to recognise pandas' own values. That takes seconds where
pandas is installed, which a command that decodes ten lines would spend on nothing: no such value comes from a decoder.
"""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import MetaPathFinder
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


class _NoPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002  the protocol's
        if fullname == "pandas":
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
