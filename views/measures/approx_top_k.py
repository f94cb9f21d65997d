"""The most frequent values, with bounds, by frequent-items sketches of Apache DataSketches.

While there are few different values, the sketch counts each exactly. When its table is full, it subtracts the median count from
all of them and drops those that reach zero; from then on counts are estimates with bounds. Source: Anderson et al., A
High-Performance Algorithm for Identifying Frequent Items in Data Streams, IMC 2017.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar, Final

import datasketches
import pyarrow as pa

from tandem.views.arrow import arrays, python_values
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.instant import time_of
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Approximation, Facts, Measure
from tandem.views.measures.states.hashing import sketch_state, states_of
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType, answer_field

LG_ROOM: Final = 10
"""log2 of the size of the sketch's table, three quarters of which it fills."""

ROOM: Final = 3 * 2**LG_ROOM // 4
"""How many different values are counted exactly: 768."""

VALUE_BYTES: Final = 12
"""Bytes of a value besides its text: its count and its length."""

_WRITTEN: Final = {"boolean": "CAST({0} AS BIGINT)", "binary": "hex({0})", "time": "epoch_us({0})"}
_READ: Final[dict[str, Callable[[str], Any]]] = {
    "boolean": lambda text: text == "1",
    "integer": int,
    "decimal": Decimal,
    "float": float,
    "text": str,
    "binary": bytes.fromhex,
    "date": date.fromisoformat,
    "time": lambda text: time_of(int(text)),
}


@dataclass(frozen=True)
class ApproxTopK:
    """The `k` most frequent values without nulls, by descending estimate, then ascending value; empty if there was no value.

    Each has an estimate of its count, and a lower and an upper bound that always hold.

    * Up to 768 different values: all three are equal, exact, and the same for every split of the events.
    * Beyond: no frequent value is missing. The count of an unlisted value is at most the upper bound of the last listed one,
      or the stated error, a fraction of the number of all values. A listed value may be less frequent than an unlisted one.
    """

    facts: ClassVar = Facts(
        merge="one addition per value of the smaller one, at most 768",
        inverse="no",
        source="Anderson et al., A high-performance algorithm for identifying frequent items in data streams, IMC 2017; "
        "Apache DataSketches",
        varying=f"32 and, for each of at most {ROOM} values, {VALUE_BYTES} and its text",
    )

    expression: str
    k: int

    def __post_init__(self) -> None:
        """Raises DefinitionError if k is not an integer from 1 to 768."""
        if not isinstance(self.k, int) or isinstance(self.k, bool) or not 1 <= self.k <= ROOM:
            raise DefinitionError(f"k {self.k!r} is not an integer from 1 to {ROOM}")

    def __str__(self) -> str:
        return call("approx_top_k", self.expression, self.k)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One sketch of values as texts; the answer is a list of structs of the value and three 64-bit integers."""
        (value,) = types
        state = sketch_state(
            "frequent", fold=f"histogram(CAST({_WRITTEN.get(value.kind, '{0}')} AS VARCHAR))", build=_build, united=_united
        )
        counts = [(name, pa.int64()) for name in ("estimate", "lower", "upper")]
        answer = pa.list_(pa.struct([answer_field("value", value), *(pa.field(name, arrow) for name, arrow in counts)]))
        error = datasketches.frequent_strings_sketch.get_epsilon_for_lg_size(LG_ROOM)
        return Aggregate(
            (state,), answer, "list", lambda columns: _present(columns, value, self.k, answer), Approximation("frequent", error)
        )


def approx_top_k(expression: str, k: int = 10, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The k most frequent values of an expression, each with its count: `approx_top_k("path", 10)`."""
    return filtered(ApproxTopK(expression, k), filter, of)


def _build(maps: pa.MapArray) -> pa.Array:
    """One sketch per group of values with their counts."""
    counted = list(zip(maps.keys.to_pylist(), maps.items.to_pylist(), strict=True))
    return arrays.binaries(states_of(maps, counted, _sketch))


def _sketch(counted: Sequence[tuple[str, int]]) -> bytes:
    sketch = datasketches.frequent_strings_sketch(LG_ROOM)
    for text, count in counted:
        sketch.update(text, count)
    serialized: bytes = sketch.serialize()
    return serialized


def _united(sketches: Sequence[bytes]) -> bytes:
    if len(sketches) == 1:
        return sketches[0]
    union = datasketches.frequent_strings_sketch(LG_ROOM)
    for sketch in sketches:
        union.merge(datasketches.frequent_strings_sketch.deserialize(sketch))
    serialized: bytes = union.serialize()
    return serialized


def _present(columns: Sequence[pa.Array], value: ValueType, k: int, answer: pa.DataType) -> pa.Array:
    (sketches,) = columns
    read = Decimal if pa.types.is_decimal(value.arrow) else _READ[value.kind]
    return python_values.array([[] if sketch is None else _most(sketch, read, k) for sketch in sketches.to_pylist()], answer)


def _most(state: bytes, read: Callable[[str], Any], k: int) -> list[dict[str, Any]]:
    sketch = datasketches.frequent_strings_sketch.deserialize(state)
    found = sketch.get_frequent_items(datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES)
    values = sorted(((read(text), *counts) for text, *counts in found), key=lambda one: (-one[1], one[0]))
    return [dict(zip(("value", "estimate", "lower", "upper"), one, strict=True)) for one in values[:k]]
