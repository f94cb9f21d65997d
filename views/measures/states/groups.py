"""The lists that DuckDB collects, one per group, handed to Python one group at a time."""

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa

Values = TypeVar("Values")


def states_of(lists: pa.ListArray, values: Values, state: Callable[[Values], bytes]) -> list[bytes | None]:
    """`state` of each group's slice of `values`, which holds the elements of all lists; None for a list without elements."""
    offsets = lists.offsets.to_pylist()
    return [
        state(values[start:to]) if start < to else None  # type: ignore[index]  # a list or a numpy array
        for start, to in pairwise(offsets)
    ]
