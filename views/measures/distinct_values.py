"""The distinct values of a group, up to a limit: the sorted list of them, and their exact number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ClassVar, ParamSpec

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Facts, Measure, State
from tandem.views.measures.states.distinct_set import MOST, check_limit, distinct_set
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType, answer_field

P = ParamSpec("P")


@dataclass(frozen=True)
class _DistinctValues:
    """The parameters of both measures: an expression, and how many distinct values a state may keep."""

    facts: ClassVar = Facts(
        merge="all values of both hashed and sorted",
        inverse="no",
        source="union of sets",
        varying="at most `limit` values; none once there were more",
    )

    expression: str
    limit: int

    def __post_init__(self) -> None:
        """Raises DefinitionError if the limit is not an integer from 1 to 100 000."""
        check_limit(self.limit)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)


@dataclass(frozen=True)
class CollectSet(_DistinctValues):
    """The distinct values in ascending order without nulls; null if there are more than `limit`.

    The answer is the empty list if there was no value. Texts (in UTF-8) and bytes are ordered byte by byte.
    """

    def __str__(self) -> str:
        return call("collect_set", self.expression, limit=self.limit)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One list of at most `limit` values. While it folds, it holds all distinct values of its events."""
        (value,) = types
        answer = pa.list_(answer_field("item", value))
        return Aggregate((_distinct_values(value, self.limit),), answer, "list", lambda columns: _lists(columns, answer))


@dataclass(frozen=True)
class CountDistinct(_DistinctValues):
    """The number of distinct values without nulls; 0 if there was no value, null if there are more than `limit`."""

    def __str__(self) -> str:
        return call("count_distinct", self.expression, limit=self.limit)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One list of at most `limit` values. While it folds, it holds all distinct values of its events."""
        (value,) = types
        return Aggregate((_distinct_values(value, self.limit),), pa.int64(), "integer", _numbers)


def collect_set(expression: str, *, limit: int = 1000, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The distinct values of an expression in ascending order; null if there are more than `limit`, at most 100 000."""
    return filtered(CollectSet(expression, limit), filter, of)


def _told_of_the_limit(factory: Callable[P, Measure]) -> Callable[P, Measure]:
    """The same function; without a limit it raises a DefinitionError that explains the limit."""

    @wraps(factory)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Measure:
        if "limit" not in kwargs:
            raise DefinitionError(
                f"count_distinct needs limit=, an integer from 1 to {MOST}: the most distinct values that it keeps for a "
                "key and window. Beyond the limit the answer is null; approx_count_distinct has no limit and answers an estimate"
            )
        return factory(*args, **kwargs)

    return checked


@_told_of_the_limit
def count_distinct(expression: str, *, limit: int, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The exact number of distinct values of an expression; null if there are more than `limit`, at most 100 000.

    Every state keeps its values, so `limit` bounds its memory. `approx_count_distinct` needs no limit.
    """
    return filtered(CountDistinct(expression, limit), filter, of)


def _distinct_values(value: ValueType, limit: int) -> State:
    return distinct_set("values", value.arrow, "{0}", where="{0} IS NOT NULL", limit=limit)


def _within_limit(lists: pa.Array, lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> arrays.Mask:
    """True where there were at most as many values as the limit."""
    within: arrays.Mask = ~arrays.validity(lists) | (lengths > 0)
    return within


def _lists(columns: Sequence[pa.Array], answer: pa.DataType) -> pa.Array:
    (lists,) = columns
    lengths = arrays.lengths(lists)
    return arrays.lists(lists.flatten(), lengths, answer, _within_limit(lists, lengths))


def _numbers(columns: Sequence[pa.Array]) -> pa.Array:
    (lists,) = columns
    lengths = arrays.lengths(lists)
    return arrays.from_numpy(lengths, pa.int64(), _within_limit(lists, lengths))
