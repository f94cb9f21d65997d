"""The versions of a table that a release has counted: those below its cut in the batch view, then those of its commits.

The speed layer looks up in them. A reader sees from them which answers were computed before a version came.

They are a base and, merged apart, what commits have added since, so that a commit costs what it adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchView, files_with_later
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.stored_states import stored
from tandem.views.arrow import arrays
from tandem.views.arrow.arrays import from_ipc
from tandem.views.current_rows import VALID_FROM
from tandem.views.kernel.kernel import merge_states, versions
from tandem.views.source.log_order import offset_sql
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View, bind, state_schema

_MOST_ADDED: Final = 1_024
"""Added states that stay apart from a base of any size; of a larger base a quarter may."""

_ROW: Final = "_row"
_STATES: Final = "_states"
_OTHERS: Final = "_others"
_ENDS: Final = "_ends"
_ENDS_SCHEMA: Final = pa.schema([("generation", pa.int64()), ("partition", pa.int64()), ("end", pa.int64())])


@dataclass(frozen=True, eq=False)
class VersionStates:
    """Merged states of the view of a table's versions, and what look-ups read of them."""

    view: View
    table: pa.Table = field(repr=False)

    @cached_property
    def versions(self) -> pa.Table:
        """As `tandem.views.kernel.versions` makes them."""
        return versions(self.view, self.table)


@dataclass(frozen=True, eq=False)
class TableVersions:
    """The versions that count the log of a table's source up to `end`.

    Below `cut` they are those of `batch`, in which repaired duplicates are left out. `additions` replace all versions that `base`
    has of its keys.
    """

    batch: BatchView
    cut: Position
    end: Position
    base: VersionStates
    new: pa.Table = field(repr=False)

    @cached_property
    def additions(self) -> VersionStates:
        """All versions of the keys of which commits have added some."""
        view, base = self.base.view, self.base.table
        return VersionStates(view, merge_states(view, [_of_keys(view, base, self.new, "SEMI"), self.new]))

    @property
    def versions(self) -> pa.Table:
        """All versions, as look-ups read them."""
        return overlay(self.base.versions, self.additions.versions) if self.new.num_rows else self.base.versions

    def after(self, commits: Sequence[Commit]) -> "TableVersions | None":
        """The same with the commits of a tail from `end` on; None if no commit begins there. Itself if it has them all."""
        if not commits or commits[-1].end == self.end:
            return self
        first = next((number for number, commit in enumerate(commits) if commit.start == self.end), None)
        if first is None:
            return None
        view, end = self.base.view, commits[-1].end
        new = [from_ipc(commit.partials[self.batch.states]) for commit in commits[first:]]
        if not any(each.num_rows for each in new):
            return replace(self, end=end)
        together = merge_states(view, [self.new, *new])
        if together.num_rows <= max(_MOST_ADDED, self.base.table.num_rows // 4):
            return replace(self, end=end, new=together)
        base = VersionStates(view, merge_states(view, [self.base.table, together]))
        return replace(self, end=end, base=base, new=together.slice(0, 0))

    def beyond(self, position: Position, generations: Sequence[str]) -> pa.Table:
        """The states of versions at or above a position; `generations` are the ids of the source's topics in log order.

        A state that a later one has replaced may be among them.
        """
        return pa.concat_tables(_beyond(self.base.view, each, position, generations) for each in (self.base.table, self.new))


def table_versions(
    tables: Tables,
    view: View,
    batch: BatchView,
    cut: Position,
    commits: Sequence[Commit],
    *,
    earlier: TableVersions | None = None,
) -> TableVersions:
    """The versions that a state of a release and its commits from the cut on count; `earlier` ones are continued if they can be.

    Raises Unreadable.
    """
    if earlier is not None and (earlier.batch, earlier.cut) == (batch, cut):
        followed = earlier.after(commits)
        if followed is not None:
            return followed
    place = Location.of(tables, batch.address(tables, view.name))
    files = files_with_later(tables, place.address, batch.parts) if batch.parts else ()
    states = [some for file, later in files for some in stored(view, place, file.path, later)]
    base = VersionStates(view, merge_states(view, states))
    followed = TableVersions(batch, cut, cut, base, pa.Table.from_batches([], state_schema(view))).after(commits)
    assert followed is not None  # the commits tile the log from the cut on
    return followed


def overlay(base: pa.Table, added: pa.Table) -> pa.Table:
    """Versions as look-ups read them, with others in place of all that they have of the keys of these."""
    names = base.column_names[: base.column_names.index(VALID_FROM)]
    return pa.concat_tables([_join(base, added, names, "ANTI"), added])


def _of_keys(view: View, states: pa.Table, others: pa.Table, kind: str) -> pa.Table:
    return _join(states, others, [name for name in view.keys if name != VALID_FROM], kind)


def _join(rows: pa.Table, others: pa.Table, names: Sequence[str], kind: str) -> pa.Table:
    """The rows that have a key of other rows, or have none, in their order."""
    equal = " AND ".join(f"{_STATES}.{quoted(name)} IS NOT DISTINCT FROM {_OTHERS}.{quoted(name)}" for name in names) or "true"
    sql = f"SELECT {_ROW} FROM {_STATES} {kind} JOIN {_OTHERS} ON {equal}"
    numbered = rows.select(names).append_column(_ROW, arrays.from_numpy(np.arange(rows.num_rows), pa.int64()))
    matched = engine.query(sql, {_STATES: numbered, _OTHERS: others.select(names)})[_ROW].to_numpy()
    return rows if len(matched) == rows.num_rows else rows.take(arrays.from_numpy(np.sort(matched), pa.int64()))


def _beyond(view: View, states: pa.Table, position: Position, generations: Sequence[str]) -> pa.Table:
    numbers = {topic: number for number, topic in enumerate(generations)}
    ends = [
        {"generation": numbers[topic], "partition": partition, "end": offset}
        for (topic, partition), offset in position.items()
        if topic in numbers
    ]
    column, _ = next(bind(view).measures[0].states)
    sql = (
        f"SELECT {_ROW} FROM (SELECT {_ROW}, {quoted(column)} AS _place FROM {_STATES}) LEFT JOIN {_ENDS} "
        f'ON _place."generation" = {_ENDS}."generation" AND _place."partition" = {_ENDS}."partition" '
        f'WHERE {offset_sql(view.source, "_place.offset")} >= coalesce({_ENDS}."end", 0)'
    )
    rows = states.select([column]).append_column(_ROW, arrays.from_numpy(np.arange(states.num_rows), pa.int64()))
    above = engine.query(sql, {_STATES: rows, _ENDS: pa.Table.from_pylist(ends, _ENDS_SCHEMA)})[_ROW].to_numpy()
    return states.take(arrays.from_numpy(np.sort(above), pa.int64()))
