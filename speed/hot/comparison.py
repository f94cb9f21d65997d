"""The comparison of the hot tail with the commits that took its place: in exact columns both answer the same."""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from tandem.ledger.log.counts import Counts
from tandem.views.exactness import of_measures
from tandem.views.kernel.kernel import arrange, merge_states, present_arranged
from tandem.views.view import View, answer_schema, bind
from tandem.views.windows.placement import WINDOW_STATE


def alike(view: View, hot: Counts, committed: Counts, *, partitions: int) -> bool:
    """Whether hot tail and commits must count the same events of a range, however each of them divides it.

    They need not
    * if one found more duplicates: either may know identities that the other no longer has, or has not loaded;
    * if one found more holes: records may have left the log meanwhile;
    * if duplicates in several partitions have different contents, or any content where windows follow the order of partitions.
    """
    divided = hot.duplicates if bind(view).placement.in_order else hot.conflicts or committed.conflicts
    same = (hot.duplicates, hot.holes) == (committed.duplicates, committed.holes)
    return same and (partitions == 1 or not divided)


def differing(view: View, hot: Sequence[pa.Table], committed: Sequence[pa.Table]) -> int:
    """The number of rows that only one of two tables of states over the same range answers with these values.

    Columns of estimates and of floating-point totals are left out, and the windows' labels.
    """
    left_out = {*of_measures(view), WINDOW_STATE.name}
    columns = [name for name in answer_schema(view).names if name not in left_out]
    one, other = (_rows(view, states, columns) for states in (hot, committed))
    return max(sum((one - other).values()), sum((other - one).values()))


def _rows(view: View, states: Sequence[pa.Table], columns: Sequence[str]) -> Counter[str]:
    answers = present_arranged(view, arrange(view, merge_states(view, states)))
    return Counter(repr(row) for row in answers.select(columns).to_pylist())
