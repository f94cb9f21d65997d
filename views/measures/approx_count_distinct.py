"""The number of distinct values, estimated by HyperLogLog sketches of Apache DataSketches, as hll_sketch_agg makes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import datasketches
import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Approximation, Facts, Measure
from tandem.views.measures.states.hashing import EMPTY, collected, one_value_hll, sketch_state, sketches_of
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType

LG_K: Final = 12
"""log2 of the number of registers: a standard error of 1.6 % in 4 KiB."""

MOST_BYTES: Final = 40 + 2**LG_K
"""A header, and a byte per register."""

_TWO_SIGMA: Final = 2
_CONFIDENCE: Final = 0.954


@dataclass(frozen=True)
class ApproxCountDistinct:
    """The number of distinct values without nulls; 0 if there was no value."""

    facts: ClassVar = Facts(
        merge="the larger of two registers, 4096 times",
        inverse="no",
        source="Flajolet, Fusy, Gandouet and Meunier, HyperLogLog, AofA 2007; Apache DataSketches",
        varying=f"at most {MOST_BYTES}; few values take less",
    )

    expression: str

    def __str__(self) -> str:
        return call("approx_count_distinct", self.expression)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One sketch; the answer is a 64-bit integer, the same for every split of the events."""
        (value,) = types
        state = sketch_state("hll", fold=collected(value), build=_build, united=_united)
        return Aggregate((state,), pa.int64(), "integer", _present, _approximation())


def approx_count_distinct(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The estimated number of distinct values of an expression."""
    return filtered(ApproxCountDistinct(expression), filter, of)


def _build(lists: pa.ListArray) -> pa.Array:
    """One sketch per group of values."""
    return sketches_of(lists, _sketch, lambda value: one_value_hll(value, LG_K), _united)


def _sketch(values: Sequence[Any]) -> bytes:
    sketch = datasketches.hll_sketch(LG_K, datasketches.tgt_hll_type.HLL_8)
    update = sketch.update
    for value in values:
        update(value if value != "" else EMPTY)
    serialized: bytes = sketch.serialize_compact()
    return serialized


def _united(sketches: Sequence[bytes]) -> bytes:
    if len(sketches) == 1:
        return sketches[0]
    serialized: bytes = _union(sketches).get_result(datasketches.tgt_hll_type.HLL_8).serialize_compact()
    return serialized


def _union(sketches: Sequence[bytes]) -> Any:
    union = datasketches.hll_union(LG_K)
    for sketch in sketches:
        union.update(datasketches.hll_sketch.deserialize(sketch))
    return union


def _present(columns: Sequence[pa.Array]) -> pa.Array:
    """The estimate of each sketch united with itself.

    A sketch that was never united remembers the order of its updates, and estimates better than a united one. Uniting it with
    itself drops that order, so every split of the same events gives the same answer.
    """
    (sketches,) = columns
    estimates = [0 if s is None else round(_union((s, s)).get_estimate()) for s in sketches.to_pylist()]
    return arrays.from_numpy(np.array(estimates, np.int64), pa.int64())


def _approximation() -> Approximation:
    error = datasketches.hll_union.get_rel_err(False, True, LG_K, _TWO_SIGMA)
    return Approximation("hll", error=round(abs(error), 4), confidence=_CONFIDENCE)
