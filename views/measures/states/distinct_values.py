"""The different values of a group as a list in order, up to a limit: the state of `collect_set` and `count_distinct`."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from views.arrow import arrays
from views.errors import DefinitionError
from views.measures.facts import Facts
from views.measures.measure import State
from views.source.value_types import ValueType

MOST_VALUES: Final = 100_000
"""The largest limit."""

DISTINCT_VALUES: Final = Facts(
    merge="all values of both hashed and sorted",
    inverse="no",
    source="union of sets",
    varying="at most `limit` values; none once there were more",
)


def check_limit(limit: Any) -> None:
    """Raises DefinitionError if the limit is not an integer from 1 to 100 000."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_VALUES:
        raise DefinitionError(f"limit {limit!r} is not an integer from 1 to {MOST_VALUES}")


def distinct_values(value: ValueType, limit: int) -> State:
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


def within_limit(lists: pa.Array, lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> arrays.Mask:
    """True where there were no more values than the limit."""
    within: arrays.Mask = ~arrays.validity(lists) | (lengths > 0)
    return within
