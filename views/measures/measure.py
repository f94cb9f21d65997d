"""What a measure is: an aggregate that can be computed in pieces.

A measure names its inputs, which are expressions over one event. Bound to their types, it is an `Aggregate`: the states that it
keeps, how DuckDB folds inputs into states and merges states, and how a state is presented as an answer. The law: folding pieces
and merging their states in any order gives the same as folding everything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.source.value_types import Kind, ValueType

Distance = Callable[[Sequence[pa.Array], Sequence[pa.Array]], npt.NDArray[np.float64]]
"""From the state columns of one computation and of another to a number per row."""

Finish = Callable[[pa.ListArray], pa.Array]
"""From the lists that DuckDB collected, one per group, to a state per group; for states that DuckDB cannot compute."""


PLACE: Final = '"_place"'
"""The input with an event's place in its partition, as a number."""

POSITION: Final = ('"_topic_id"', '"_partition"', PLACE)
"""The inputs of a measure that reads where in the log an event is."""

LOG_ORDER: Final = ('"_generation"', '"_partition"', PLACE)
"""The inputs of a measure that reads the order of the log."""

EVENT_TIME: Final = '"_event_time"'
"""The input with the event time, whatever the source's name for that field."""


@dataclass(frozen=True)
class State:
    """One column of a measure's state.

    `fold` and `merge` are SQL aggregates: `fold` over the inputs, written {0}, {1}, ..., `merge` over the state column,
    written {0}. With `build`, `fold` collects a list per group, and `build` makes the state of it; so does `unite` after `merge`.
    The column of a measure with one state has the measure's name, without the suffix.
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

    | kind | error |
    | --- | --- |
    | hll, theta | relative error of a number of distinct values, with `confidence` |
    | kll | error of a quantile's rank, with `confidence` |
    | frequent | error of a count as a fraction of the number of all values; it always holds |
    | order | rounding of doubles, which depends on the order in which events were added |
    | derived | computed from measures of which one is approximate |
    """

    kind: Literal["hll", "theta", "kll", "frequent", "order", "derived"]
    error: float | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Rounding:
    """That an answer was rounded to a double: at most by the part `error` of it; None if no bound is known."""

    error: float | None


@dataclass(frozen=True)
class Aggregate:
    """A measure bound to the types of its inputs.

    * `present`: from the state columns, equally long, to an array of type `answer`.
    * `approximate`: None for an answer that is exact.
    * `distance`: from the state columns of two computations over the same events to how far apart each row is, in the unit of
      `approximate`'s error; infinite where no error explains it. None if comparing the answers is enough.
    * `rounding`: how a derived answer was rounded. It is the same in every computation of the same inputs.
    """

    states: tuple[State, ...]
    answer: pa.DataType
    kind: Kind | Literal["list", "struct"]
    present: Callable[[Sequence[pa.Array]], pa.Array]
    approximate: Approximation | None = None
    distance: Distance | None = None
    rounding: Rounding | None = None


class Measure(Protocol):
    """A measure of a view: a frozen dataclass, so that its class and fields are its whole meaning."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The expressions that it reads, in the order in which `bind` takes their types."""
        ...

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """The aggregate for inputs of these types. Raises DefinitionError for a type that it cannot take."""
        ...


def only(columns: Sequence[pa.Array]) -> pa.Array:
    """The `present` of a measure whose one state is its answer."""
    (column,) = columns
    return column


@dataclass(frozen=True)
class Facts:
    """What docs/measures.md says of a measure, kept beside its code.

    * `merge`: the cost of merging two states.
    * `inverse`: whether the state of some events can be subtracted from the state of all.
    * `source`: where the formula comes from.
    * `varying`: the bytes of columns whose type has no fixed width.

    A measure whose states differ for doubles has the facts of those in `facts_of_doubles`.
    """

    merge: str
    inverse: str
    source: str
    varying: str = ""
