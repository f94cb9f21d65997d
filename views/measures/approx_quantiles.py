"""Quantiles of a number, estimated by KLL sketches of Apache DataSketches, which Spark reads and unites, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import datasketches
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Approximation, Facts, Measure
from tandem.views.measures.states.hashing import sketch_state, states_of
from tandem.views.measures.total import number
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType
from tandem.views.value_forms import members

K: Final = 200
"""Accuracy: groups of up to 200 values are exact, larger ones have a rank error of 1.33 %."""

MOST_BYTES: Final = 10_000
"""The size limit of a sketch: 200 values on the highest level, 2/3 of that on each level below but at least 8, on at most 61
levels."""

_CONFIDENCE: Final = 0.99


@dataclass(frozen=True)
class ApproxQuantiles:
    """For each fraction q the smallest value that a share of at least q of all values does not exceed; nulls are ignored.

    The sketch keeps random samples, so two folds of the same events may differ within its error.
    """

    facts: ClassVar = Facts(
        merge="in proportion to the values that are kept; it is random",
        inverse="no",
        source="Karnin, Lang and Liberty, Optimal quantile approximation in streams, FOCS 2016; Apache DataSketches",
        varying=f"at most {MOST_BYTES} for any number of values",
    )

    expression: str
    fractions: tuple[float, ...]

    def __post_init__(self) -> None:
        """Make the fractions floats. Raises DefinitionError if they are not different numbers from 0 to 1."""
        try:
            fractions = tuple(float(fraction) for fraction in self.fractions)
        except (TypeError, ValueError):
            fractions = ()
        if not fractions or len(set(fractions)) < len(fractions) or not all(0 <= fraction <= 1 for fraction in fractions):
            raise DefinitionError(f"quantiles {self.fractions!r} are not different numbers from 0 to 1, such as (0.5, 0.99)")
        object.__setattr__(self, "fractions", fractions)

    def __str__(self) -> str:
        return call("approx_quantiles", self.expression, self.fractions)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One sketch; the answer is a struct of a double per fraction, named as Python writes it ("0.5"), null without values."""
        number(types)
        state = sketch_state("kll", fold="list(CAST({0} AS DOUBLE)) FILTER ({0} IS NOT NULL)", build=_build, united=_united)
        answer = pa.struct([(repr(fraction), pa.float64()) for fraction in self.fractions])
        error = datasketches.kll_doubles_sketch.get_normalized_rank_error(K, False)
        approximation = Approximation("kll", error=round(error, 4), confidence=_CONFIDENCE)
        return Aggregate(
            (state,),
            answer,
            "struct",
            lambda columns: _present(columns, self.fractions),
            approximation,
            lambda one, other: _distance(one, other, self.fractions),
        )


def approx_quantiles(
    expression: str,
    fractions: Sequence[float],
    *,
    filter: str | None = None,  # noqa: A002  the word of SQL
    of: Source | None = None,
) -> Measure:
    """Estimated quantiles of an expression: `approx_quantiles("ms", (0.5, 0.99))`."""
    return filtered(ApproxQuantiles(expression, members("fractions", fractions, "(0.5, 0.99)")), filter, of)


def _build(lists: pa.ListArray) -> pa.Array:
    """One sketch per group of values."""
    values = arrays.doubles(lists.values).copy()  # a copy, because the sketch refuses read-only arrays
    return arrays.binaries(states_of(lists, values, _sketch))


def _sketch(values: npt.NDArray[np.float64]) -> bytes:
    sketch = datasketches.kll_doubles_sketch(K)
    sketch.update(values)
    serialized: bytes = sketch.serialize()
    return serialized


def _united(sketches: Sequence[bytes]) -> bytes:
    first, *others = sketches
    if not others:
        return first  # a union is random, so one sketch is not united
    union: Any = datasketches.kll_doubles_sketch.deserialize(first)
    for sketch in others:
        union.merge(datasketches.kll_doubles_sketch.deserialize(sketch))
    serialized: bytes = union.serialize()
    return serialized


def _present(columns: Sequence[pa.Array], fractions: tuple[float, ...]) -> pa.Array:
    (sketches,) = columns
    present = arrays.validity(sketches)
    values = np.zeros((len(sketches), len(fractions)))
    for row, sketch in enumerate(sketches.to_pylist()):
        if sketch is not None:
            values[row] = datasketches.kll_doubles_sketch.deserialize(sketch).get_quantiles(fractions, True)
    fields = [arrays.from_numpy(values[:, column], pa.float64(), present) for column in range(len(fractions))]
    return pa.StructArray.from_arrays(fields, names=[repr(fraction) for fraction in fractions])


def _distance(one: Sequence[pa.Array], other: Sequence[pa.Array], fractions: tuple[float, ...]) -> npt.NDArray[np.float64]:
    """The largest distance between a fraction and the rank that one sketch gives to the other sketch's quantile.

    A sketch counts its values exactly, and is exact in everything while it has few of them.
    """
    pairs = zip(one[0].to_pylist(), other[0].to_pylist(), strict=True)
    return np.array([_apart(*pair, fractions) for pair in pairs], np.float64)


def _apart(one: bytes | None, other: bytes | None, fractions: tuple[float, ...]) -> float:
    if one is None or other is None:
        return 0.0 if one is other else np.inf
    ours, theirs = (datasketches.kll_doubles_sketch.deserialize(sketch) for sketch in (one, other))
    exact = not (ours.is_estimation_mode() or theirs.is_estimation_mode())
    if ours.n != theirs.n or (exact and ours.get_quantiles(fractions, True) != theirs.get_quantiles(fractions, True)):
        return np.inf
    return max(_off(ours, theirs, fractions), _off(theirs, ours, fractions))


def _off(one: Any, other: Any, fractions: tuple[float, ...]) -> float:
    """How far a fraction is outside the ranks that the other sketch gives to this one's quantile; 0 inside."""
    ranks = zip(fractions, one.get_quantiles(fractions, True), strict=True)
    off = (max(other.get_rank(at, False) - fraction, fraction - other.get_rank(at, True)) for fraction, at in ranks)
    return float(max(0.0, *off))
