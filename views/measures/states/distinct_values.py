"""The distinct values of a group as a sorted list, up to a limit: the state of `collect_set` and `count_distinct`."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.errors import DefinitionError
from tandem.views.measures.measure import Facts, State
from tandem.views.source.value_types import ValueType

MOST_VALUES: Final = 100_000
"""The largest limit."""


@dataclass(frozen=True)
class DistinctValues:
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
        if not isinstance(self.limit, int) or isinstance(self.limit, bool) or not 1 <= self.limit <= MOST_VALUES:
            raise DefinitionError(f"limit {self.limit!r} is not an integer from 1 to {MOST_VALUES}")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)


def distinct_values(value: ValueType, limit: int) -> State:
    """The values in order; the empty list as soon as there are more than `limit`, for good; null without a value.

    DuckDB's min(x, n) is not used: it allocates room for n values per group before it has seen one.
    """
    different = "list(DISTINCT {0}) FILTER ({0} IS NOT NULL)"
    united = "list_distinct(flatten(list({0}) FILTER ({0} IS NOT NULL)))"
    return State(
        "values",
        pa.list_(value.arrow),
        fold=f"CASE WHEN len({different}) > {limit} THEN [] ELSE list_sort({different}) END",
        merge=f"CASE WHEN bool_or(len({{0}}) = 0) OR len({united}) > {limit} THEN [] ELSE list_sort({united}) END",
    )


def within_limit(lists: pa.Array, lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> arrays.Mask:
    """True where there were at most as many values as the limit."""
    within: arrays.Mask = ~arrays.validity(lists) | (lengths > 0)
    return within
