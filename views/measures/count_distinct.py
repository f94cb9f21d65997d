"""The number of distinct values, exactly, up to a limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Measure
from tandem.views.measures.states.distinct_values import MOST_VALUES, DistinctValues, distinct_values, within_limit
from tandem.views.source.value_types import ValueType

P = ParamSpec("P")


@dataclass(frozen=True)
class CountDistinct(DistinctValues):
    """The number of distinct values without nulls; 0 if there was no value, null if there are more than `limit`."""

    def __str__(self) -> str:
        return call("count_distinct", self.expression, limit=self.limit)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One list of at most `limit` values. While it folds, it holds all distinct values of its events."""
        (value,) = types
        return Aggregate((distinct_values(value, self.limit),), pa.int64(), "integer", _numbers)


def _told_of_the_limit(factory: Callable[P, Measure]) -> Callable[P, Measure]:
    """The same function; without a limit it raises a DefinitionError that explains the limit."""

    @wraps(factory)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Measure:
        if "limit" not in kwargs:
            raise DefinitionError(
                f"count_distinct needs limit=, an integer from 1 to {MOST_VALUES}: the most distinct values that it keeps for a "
                "key and window. Beyond the limit the answer is null; approx_count_distinct has no limit and answers an estimate"
            )
        return factory(*args, **kwargs)

    return checked


@_told_of_the_limit
def count_distinct(expression: str, *, limit: int, filter: str | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The exact number of distinct values of an expression; null if there are more than `limit`, at most 100 000.

    Every state keeps its values, so `limit` bounds its memory. `approx_count_distinct` needs no limit.
    """
    return filtered(CountDistinct(expression, limit), filter)


def _numbers(columns: Sequence[pa.Array]) -> pa.Array:
    (lists,) = columns
    lengths = arrays.lengths(lists)
    return arrays.from_numpy(lengths, pa.int64(), within_limit(lists, lengths))
