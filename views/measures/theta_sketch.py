"""The number of distinct values, estimated by theta sketches of Apache DataSketches, as Spark's theta_sketch_agg makes them.

Theta sketches also intersect and subtract: how many customers bought both products, how many returned, how many did not. The
functions for that take the states of two keys, windows or views over the same kind of value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import datasketches
import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import TandemError
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Approximation, Facts, Measure
from tandem.views.measures.states.hashing import EMPTY, collected, one_value_theta, sketch_state, sketches_of
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType

LG_K: Final = 12
"""log2 of the number of hashes kept: exact up to 4096 values; a standard error of 1.6 % in at most 32 KiB beyond."""

MOST_BYTES: Final = 24 + 8 * 2**LG_K
"""A header, and 8 bytes per hash."""

_SIGMAS: Final = 2
_CONFIDENCE: Final = 0.954


@dataclass(frozen=True)
class ThetaSketch:
    """The number of distinct values without nulls; 0 if there was no value."""

    facts: ClassVar = Facts(
        merge="two sorted lists of hashes united, at most 4096 each",
        inverse="no, but sets can be subtracted: `theta_difference`",
        source="Dasgupta, Lang, Rhodes and Thaler, A framework for estimating stream expression cardinalities, ICDT 2016; "
        "Apache DataSketches",
        varying=f"at most {MOST_BYTES}; few values take less",
    )

    expression: str

    def __str__(self) -> str:
        return call("theta_sketch", self.expression)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One sketch, compact and ordered, the same bytes for every split and order of the events; a 64-bit integer."""
        (value,) = types
        state = sketch_state("theta", fold=collected(value), build=_build, united=_bytes_of_union)
        # The relative standard error of a theta sketch is 1 / sqrt(k - 1): datasketches.apache.org, Theta Sketch Framework.
        approximation = Approximation("theta", error=round(_SIGMAS / (2**LG_K - 1) ** 0.5, 4), confidence=_CONFIDENCE)
        return Aggregate((state,), pa.int64(), "integer", _present, approximation)


@dataclass(frozen=True)
class Different:
    """A number of distinct values: a state, its estimate, and bounds that hold with 95.4 % confidence.

    Estimate and bounds are equal and exact while no sketch has had more than 4096 values.
    """

    state: bytes
    estimate: float
    lower: float
    upper: float


def theta_sketch(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The estimated number of distinct values of an expression, in a state that also intersects and subtracts."""
    return filtered(ThetaSketch(expression), filter, of)


def theta_union(states: Sequence[bytes | None]) -> Different:
    """The values in any of the states; None is the state without a value. Raises TandemError for bytes that are not a sketch."""
    return _different(_united([_opened(state) for state in states]))


def theta_intersection(first: bytes | None, *others: bytes | None) -> Different:
    """The values in every one of the states; None and errors as in `theta_union`.

    The bounds grow with the union: the fewer values are in common, the wider they are compared with the estimate.
    """
    intersection = datasketches.theta_intersection()
    for state in (first, *others):
        intersection.update(_opened(state))
    return _different(intersection.get_result())


def theta_difference(state: bytes | None, without: bytes | None) -> Different:
    """The values in the first state that are not in the second; None, errors and bounds as in `theta_intersection`."""
    return _different(datasketches.theta_a_not_b().compute(_opened(state), _opened(without)))


def _opened(state: bytes | None) -> Any:
    if state is None:
        return datasketches.update_theta_sketch(LG_K).compact()
    try:
        return datasketches.compact_theta_sketch.deserialize(state)
    except Exception as error:  # the binding raises what C++ throws, of several types
        raise TandemError(f"{state[:16]!r}... ({len(state)} bytes) is not a theta sketch: {error}") from error


def _different(sketch: Any) -> Different:
    lower, upper = sketch.get_lower_bound(_SIGMAS), sketch.get_upper_bound(_SIGMAS)
    return Different(sketch.serialize(), sketch.get_estimate(), lower, upper)


def _build(lists: pa.ListArray) -> pa.Array:
    """One sketch per group of values."""
    return sketches_of(lists, _sketch, one_value_theta, _bytes_of_union)


def _sketch(values: Sequence[Any]) -> bytes:
    sketch = datasketches.update_theta_sketch(LG_K)
    update = sketch.update
    for value in values:
        update(value if value != "" else EMPTY)
    sketch.trim()  # as a union does; without it the number of hashes depends on the order of updates
    serialized: bytes = sketch.compact().serialize()
    return serialized


def _bytes_of_union(states: Sequence[bytes]) -> bytes:
    if len(states) == 1:
        return states[0]
    serialized: bytes = _united([datasketches.compact_theta_sketch.deserialize(state) for state in states]).serialize()
    return serialized


def _united(sketches: Sequence[Any]) -> Any:
    union = datasketches.theta_union(LG_K)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result()


def _present(columns: Sequence[pa.Array]) -> pa.Array:
    (states,) = columns
    opened = [None if state is None else datasketches.compact_theta_sketch.deserialize(state) for state in states.to_pylist()]
    estimates = [0 if sketch is None else round(sketch.get_estimate()) for sketch in opened]
    return arrays.from_numpy(np.array(estimates, np.int64), pa.int64())
