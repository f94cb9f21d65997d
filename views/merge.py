"""The kernel's merge: partials of disjoint ranges to the partial of all of them."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from views import arrays, engine
from views.engine import quoted
from views.expressions import REASONS
from views.partial import Partial, no_states
from views.ranges import EMPTY
from views.view import View, bind, group_columns, state_schema

_STATES: Final = "_states"


def merge(view: View, partials: Sequence[Partial]) -> Partial:
    """Unite partials of the view, in any order and grouping; the partial of nothing if there are none.

    Raises Overlap if two of them cover the same offset. For exact measures the states are those of one fold over all
    events; KLL sketches throw dice at every merge, so merge once.
    """
    ranges = EMPTY.union(*(one.ranges for one in partials))
    rejected: Counter[str] = Counter()
    for one in partials:
        rejected.update(one.rejected)
    states = merge_states(view, [one.states for one in partials])
    return Partial(states, ranges, {reason: rejected[reason] for reason in REASONS if rejected[reason]})


def merge_states(view: View, tables: Sequence[pa.Table]) -> pa.Table:
    """Unite tables of the view's states, whose rows may share keys and windows even within one table.

    Whoever calls this answers for the tables having no event in common.
    """
    schema = state_schema(view)
    rows = pa.concat_tables([no_states(view), *(table.select(schema.names).cast(schema) for table in tables)])
    if not rows.num_rows:
        return no_states(view)
    merged = engine.query(merge_sql(view), {_STATES: rows})
    engine.take_back(_STATES)
    columns = [arrays.whole(merged.column(name)) for name in group_columns(view)]
    for measure in bind(view).measures:
        for name, state in measure.states:
            column = arrays.whole(merged.column(name))
            columns.append(column if state.unite is None else state.unite(column))
    return arrays.table(columns, schema)


@lru_cache(maxsize=1024)
def merge_sql(view: View) -> str:
    """The statement that unites rows of equal keys and windows in the table `_states`."""
    groups = [quoted(name) for name in group_columns(view)]
    states = [
        f"{state.merge.format(quoted(name))} AS {quoted(name)}"
        for measure in bind(view).measures
        for name, state in measure.states
    ]
    return f"SELECT {', '.join([*groups, *states])} FROM {_STATES} GROUP BY ALL"
