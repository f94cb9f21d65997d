"""Which different values there are, exactly, as long as they are few."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
import pyarrow as pa

from views.arrow import arrays
from views.definition_text import call
from views.errors import DefinitionError
from views.measures.facts import Facts
from views.measures.filtered import filtered
from views.measures.measure import Aggregate, Measure, State
from views.source.value_types import ValueType, answer_field

_MOST: Final = 100_000


@dataclass(frozen=True)
class ExactSet:
    """The different values in ascending order, or their number; nulls are left out, and more than `limit` values give null.

    Without a value the answer is the empty list, or 0. Texts and bytes are ordered byte by byte, texts in UTF-8.
    """

    facts: ClassVar = Facts(
        merge="all values of both hashed and sorted",
        inverse="no",
        source="union of sets",
        varying="at most `limit` values; none once there were more",
    )

    expression: str
    limit: int
    which: Literal["values", "number"]

    def __post_init__(self) -> None:
        """Raises DefinitionError if the limit is not an integer from 1 to 100 000."""
        if not isinstance(self.limit, int) or isinstance(self.limit, bool) or not 1 <= self.limit <= _MOST:
            raise DefinitionError(f"limit {self.limit!r} is not an integer from 1 to {_MOST}")

    def __str__(self) -> str:
        return call("set_of" if self.which == "values" else "distinct_exact", self.expression, self.limit)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One list of at most `limit` values; a fold holds the different values of the events before it."""
        (value,) = types
        if self.which == "number":
            return Aggregate((_state(value, self.limit),), pa.int64(), "integer", _numbers)
        answer = pa.list_(answer_field("item", value))
        return Aggregate((_state(value, self.limit),), answer, "list", lambda columns: _lists(columns, answer))


def set_of(expression: str, limit: int = 1000, *, filter: str | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The different values of an expression in ascending order; null if there are more than `limit`."""
    return filtered(ExactSet(expression, limit, "values"), filter)


def distinct_exact(expression: str, limit: int = 10_000, *, filter: str | None = None) -> Measure:  # noqa: A002
    """The exact number of different values of an expression; null if there are more than `limit`."""
    return filtered(ExactSet(expression, limit, "number"), filter)


def _state(value: ValueType, limit: int) -> State:
    """The values in order; the empty list once there were more than `limit`, whatever comes after; null without a value.

    Not DuckDB's min(x, n), which is given room for n values per group before it has seen one.
    """
    different = "list(DISTINCT {0}) FILTER ({0} IS NOT NULL)"
    united = "list_distinct(flatten(list({0}) FILTER ({0} IS NOT NULL)))"
    return State(
        "values",
        pa.list_(value.arrow),
        fold=f"CASE WHEN len({different}) > {limit} THEN [] ELSE list_sort({different}) END",
        merge=f"CASE WHEN bool_or(len({{0}}) = 0) OR len({united}) > {limit} THEN [] ELSE list_sort({united}) END",
    )


def _numbers(columns: Sequence[pa.Array]) -> pa.Array:
    (lists,) = columns
    lengths = arrays.lengths(lists)
    return arrays.from_numpy(lengths, pa.int64(), _within(lists, lengths))


def _lists(columns: Sequence[pa.Array], answer: pa.DataType) -> pa.Array:
    (lists,) = columns
    lengths = arrays.lengths(lists)
    return arrays.lists(lists.flatten(), lengths, answer, _within(lists, lengths))


def _within(lists: pa.Array, lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> arrays.Mask:
    """True where there were no more values than the limit."""
    within: arrays.Mask = ~arrays.validity(lists) | (lengths > 0)
    return within
