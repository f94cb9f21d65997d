"""The set of distinct values, exactly, up to a limit."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Measure
from tandem.views.measures.states.distinct_values import DistinctValues, distinct_values, within_limit
from tandem.views.source.value_types import ValueType, answer_field


@dataclass(frozen=True)
class CollectSet(DistinctValues):
    """The distinct values in ascending order without nulls; null if there are more than `limit`.

    The answer is the empty list if there was no value. Texts (in UTF-8) and bytes are ordered byte by byte.
    """

    def __str__(self) -> str:
        return call("collect_set", self.expression, limit=self.limit)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One list of at most `limit` values. While it folds, it holds all distinct values of its events."""
        (value,) = types
        answer = pa.list_(answer_field("item", value))
        return Aggregate((distinct_values(value, self.limit),), answer, "list", lambda columns: _lists(columns, answer))


def collect_set(expression: str, *, limit: int = 1000, filter: str | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The distinct values of an expression in ascending order; null if there are more than `limit`, at most 100 000."""
    return filtered(CollectSet(expression, limit), filter)


def _lists(columns: Sequence[pa.Array], answer: pa.DataType) -> pa.Array:
    (lists,) = columns
    lengths = arrays.lengths(lists)
    return arrays.lists(lists.flatten(), lengths, answer, within_limit(lists, lengths))
