"""What a measure is: an aggregate that can be computed in pieces.

A measure names its inputs, expressions over one event. Bound to their types it says which states it keeps, how DuckDB
folds inputs into states and merges states, and what a state means as an answer. fold and merge must agree: folding any
pieces and merging them in any order gives what folding everything gives.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from views.source.value_types import Kind, ValueType

Distance = Callable[[Sequence[pa.Array], Sequence[pa.Array]], npt.NDArray[np.float64]]
"""From the state columns of one computation and of another to a number per row."""

Finish = Callable[[pa.ListArray], pa.Array]
"""Turns the list that DuckDB collected for each group into the group's state, where DuckDB itself cannot."""


PLACE: Final = '"_place"'
"""The input that stands for a number, an event's place in its partition."""

POSITION: Final = ('"_topic_id"', '"_partition"', PLACE)
"""The inputs of a measure that looks at where in the log an event is."""

LOG_ORDER: Final = ('"_generation"', '"_partition"', PLACE)
"""The inputs of a measure that looks at what comes before what in the log."""

EVENT_TIME: Final = '"_event_time"'
"""The input of a measure that looks at when an event was, whatever its source calls that."""


@dataclass(frozen=True)
class State:
    """One column of a measure's state.

    `fold` and `merge` are SQL aggregates: `fold` over the inputs, written {0}, {1}, ..., `merge` over the state column,
    written {0}. With `build`, `fold` gives a list per group, which `build` makes the state; `unite` likewise after `merge`.
    A measure with one state has its column under its own name, so its suffix is not used then.
    """

    suffix: str
    type: pa.DataType
    fold: str
    merge: str
    build: Finish | None = None
    unite: Finish | None = None


@dataclass(frozen=True)
class Approximation:
    """How far an answer may be from the exact one.

    "hll" and "theta": relative error of a number of distinct values; "kll": error of a quantile's rank; these hold with
    `confidence`. "frequent": error of a count as a fraction of the number of all values, which always holds. "order":
    double-precision rounding, which depends on the order in which events were added. "derived": computed from measures of
    which one is approximate.
    """

    kind: Literal["hll", "theta", "kll", "frequent", "order", "derived"]
    error: float | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Aggregate:
    """A measure bound to the types of its inputs.

    `present` takes the state columns, equally long, and gives an array of type `answer`. `approximate` is None for an
    answer that is exact. `distance` takes the state columns of two computations over the same events and says, row by row, how
    far apart they are in the unit of the error that `approximate` states, infinitely far where no error explains it; None where
    that is to be seen from the answers.
    """

    states: tuple[State, ...]
    answer: pa.DataType
    kind: Kind | Literal["list", "struct"]
    present: Callable[[Sequence[pa.Array]], pa.Array]
    approximate: Approximation | None = None
    distance: Distance | None = None


class Measure(Protocol):
    """A measure of a view: a frozen dataclass, so that its class and fields are its whole meaning."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The expressions that it looks at, in the order in which `bind` takes their types."""
        ...

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """The aggregate for inputs of these types. Raises DefinitionError for a type that it cannot take."""
        ...


def only(columns: Sequence[pa.Array]) -> pa.Array:
    """Present a measure whose single state is its answer."""
    (column,) = columns
    return column
