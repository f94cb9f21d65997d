"""The set of what the events of a group gave, up to a limit: the state of measures that need all of it."""

from typing import Final

import pyarrow as pa

from tandem.views.errors import DefinitionError
from tandem.views.measures.measure import State

MOST: Final = 100_000
"""The largest limit."""


def check_limit(limit: object) -> None:
    """Raises DefinitionError if a limit is not an integer from 1 to 100 000."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST:
        raise DefinitionError(f"limit {limit!r} is not an integer from 1 to {MOST}")


def distinct_set(suffix: str, item: pa.DataType, sql: str, *, where: str, limit: int) -> State:
    """The distinct values of `sql` in order; null without a value, and for good the empty list once there are more than `limit`.

    `sql` and the condition `where` are over the inputs. DuckDB's min(x, n) is not used: it allocates room for n values per group
    before it has seen one.
    """
    different = f"list(DISTINCT {sql}) FILTER ({where})"
    united = "list_distinct(flatten(list({0}) FILTER ({0} IS NOT NULL)))"
    return State(
        suffix,
        pa.list_(item),
        fold=f"CASE WHEN len({different}) > {limit} THEN [] ELSE list_sort({different}) END",
        merge=f"CASE WHEN bool_or(len({{0}}) = 0) OR len({united}) > {limit} THEN [] ELSE list_sort({united}) END",
    )
