"""States that Python makes of the lists that DuckDB collects, a group at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.measures.measure import State

Values = TypeVar("Values")


def states_of(lists: pa.ListArray, values: Values, state: Callable[[Values], bytes]) -> list[bytes | None]:
    """`state` of each group's slice of `values`, which holds the elements of all lists; None for a list without elements."""
    offsets = lists.offsets.to_pylist()
    return [
        state(values[start:to]) if start < to else None  # type: ignore[index]  # a list or a numpy array
        for start, to in pairwise(offsets)
    ]


@dataclass(frozen=True)
class _Unite:
    """Unites the sketches of each group by `united`. Equal measures have equal states, which a closure would not be."""

    united: Callable[[list[bytes]], bytes]

    def __call__(self, lists: pa.ListArray) -> pa.Array:
        return arrays.binaries(states_of(lists, lists.values.to_pylist(), self.united))


def sketch_state(
    suffix: str, *, fold: str, build: Callable[[pa.ListArray], pa.Array], united: Callable[[list[bytes]], bytes]
) -> State:
    """A sketch as bytes: `build` makes it of the values that `fold` collects, `united` merges the sketches of one group."""
    return State(suffix, pa.binary(), fold=fold, merge="list({0}) FILTER ({0} IS NOT NULL)", build=build, unite=_Unite(united))
