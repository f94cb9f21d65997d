"""Which event times other versions of a table's rows may change the look-ups of."""

from typing import Final

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.composite.current_rows import VALID_FROM
from tandem.views.kernel.versions import Numbers, after_last_until, first_rows, times
from tandem.views.lookup.lookup import How
from tandem.views.measures.filtered import bare
from tandem.views.measures.first_last import NewestVersion
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View

Range = tuple[int, int]
"""Half-open, in microseconds since 1970."""

EVER: Final[Range] = (-(2**63), 2**63 - 1)
"""The range of all times."""


def touched(view: View, versions: pa.Table, changed: pa.Table, until: int | None = None, *, how: How = "as_of") -> list[Range]:
    """The event times for which a look-up may find another row than before these changes, sorted and disjoint.

    Args:
        view: The view of versions.
        versions: All versions, with the changed ones, as `versions` makes them.
        changed: The key's columns and `valid_from` of versions that are new, or changed, or are gone.
        until: The greatest event time that matters; None if all do.
        how: The kind of look-up.

    A version changes what is found from its time on, until the next version of its key. In a table in the order of the log it may
    hide all later ones, so it changes what is found from its time on; and the latest version is that of events of every time.
    """
    if not changed.num_rows:
        return []
    if how == "now":
        return [EVER]
    measure = bare(next(iter(view.measures.values())))
    assert isinstance(measure, NewestVersion)  # of a view of versions
    starts, keys = times(changed), [name for name in view.keys if name != VALID_FROM]
    ends = np.full(len(starts), EVER[1], dtype=np.int64)
    if measure.order == "time":
        ends = _next_times(versions, changed, keys)
    if until is not None:
        ends = np.minimum(ends, until + 1)
    return _disjoint(starts, ends)


def _next_times(versions: pa.Table, changed: pa.Table, keys: list[str]) -> Numbers:
    """For each changed version the time of the next version of its key."""
    at = times(versions)
    equal = " AND ".join(f"c.{quoted(name)} IS NOT DISTINCT FROM k.{quoted(name)}" for name in keys)
    begins = first_rows(versions, keys)
    ends = np.append(begins[1:], versions.num_rows).astype(np.int64)
    groups = versions.select(keys).take(arrays.from_numpy(begins, pa.int64()))
    rows = {
        "_groups": groups.append_column("_group", arrays.from_numpy(np.arange(len(begins)), pa.int64())),
        "_changed": changed.select(keys).append_column("_row", arrays.row_numbers(changed.num_rows)),
    }
    matched = engine.query(f"SELECT c._row, k._group FROM _changed AS c JOIN _groups AS k ON {equal}", rows)
    row, group = (arrays.integers(arrays.whole(matched[name])) for name in ("_row", "_group"))
    following = after_last_until(at, times(changed)[row], begins[group], ends[group])
    until = np.full(changed.num_rows, EVER[1], dtype=np.int64)
    until[row] = np.where(following < ends[group], at[np.minimum(following, max(len(at) - 1, 0))], EVER[1])
    return until


def _disjoint(starts: Numbers, ends: Numbers) -> list[Range]:
    united: list[Range] = []
    for start, end in sorted(zip(starts.tolist(), ends.tolist(), strict=True)):
        if start >= end:
            continue
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], end)
        else:
            united.append((start, end))
    return united
