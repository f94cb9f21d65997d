"""The versions of a table that a release has counted: those below its cut in the batch view, then those of its commits.

The speed layer looks up in them. A reader sees from them which answers were computed before a version came.

They are a base and, merged apart, what commits have added since, so that a commit costs what it adds. A base that is too large
for the memory of a process that looks up is in files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.ledger import states_by_key
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchView, files_with_later
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.states_by_key import Hashes, StatesByKey
from tandem.ledger.stored_states import stored
from tandem.views.arrow import arrays
from tandem.views.arrow.arrays import from_ipc
from tandem.views.composite.current_rows import VALID_FROM
from tandem.views.kernel.kernel import merge_states, versions
from tandem.views.kernel.partial import no_states
from tandem.views.source.log_order import offset_sql
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View, bind

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
        view = self.base.view
        continued = _with_commits(view, self.batch, self.new, self.end, commits)
        if continued is None:
            return None
        new, end = continued
        if new is self.new:
            return self if end == self.end else replace(self, end=end)
        if new.num_rows <= max(_MOST_ADDED, self.base.table.num_rows // 4):
            return replace(self, end=end, new=new)
        base = VersionStates(view, merge_states(view, [self.base.table, new]))
        return replace(self, end=end, base=base, new=new.slice(0, 0))

    def beyond(self, position: Position, generations: Sequence[str]) -> pa.Table:
        """The states of versions at or above a position; `generations` are the ids of the source's topics in log order.

        A state that a later one has replaced may be among them.
        """
        return pa.concat_tables(_beyond(self.base.view, each, position, generations) for each in (self.base.table, self.new))


@dataclass(frozen=True)
class Overflow:
    """Where a table of more than `most` bytes of states is: files in `place`; `scratch` is a folder of this machine."""

    most: int
    place: Location
    scratch: Path

    def write(self, view: View, states: Iterable[pa.Table]) -> StatesByKey:
        """Merge states into a file. Raises Unwritable."""
        return states_by_key.write(view, states, self.place, self.scratch)


@dataclass(frozen=True, eq=False)
class LargeVersions:
    """As TableVersions, with the states of `base` in files; `new` are states that no file has yet.

    Each file has at least twice as many states as the next one, so each state is rewritten only a few times.
    """

    view: View
    batch: BatchView
    cut: Position
    end: Position
    base: tuple[StatesByKey, ...]
    new: pa.Table = field(repr=False)
    overflow: Overflow = field(repr=False)

    def after(self, commits: Sequence[Commit]) -> "LargeVersions | None":
        """As TableVersions.after; the caller deletes files that the result no longer has. Raises Unwritable, Unreadable."""
        continued = _with_commits(self.view, self.batch, self.new, self.end, commits)
        if continued is None:
            return None
        new, end = continued
        if new is self.new:
            return self if end == self.end else replace(self, end=end)
        if new.num_rows <= _MOST_ADDED:
            return replace(self, end=end, new=new)
        files, states, rows = [*self.base], [iter([new])], new.num_rows
        while files and files[-1].rows < 2 * rows:
            rows += files[-1].rows
            states.append(states_by_key.load_all(files.pop()))
        files.append(self.overflow.write(self.view, chain.from_iterable(states)))
        return replace(self, end=end, base=tuple(files), new=no_states(self.view))


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
    return _in_memory(view, batch, cut, [*_batch_states(tables, view, batch)], commits)


def versions_within(
    tables: Tables,
    view: View,
    batch: BatchView,
    cut: Position,
    commits: Sequence[Commit],
    *,
    overflow: Overflow,
    earlier: "TableVersions | LargeVersions | None" = None,
) -> "TableVersions | LargeVersions":
    """As table_versions, but in files if the states take more than `overflow.most` bytes. Raises Unreadable, Unwritable."""
    followed = None
    if earlier is not None and (earlier.batch, earlier.cut) == (batch, cut):
        followed = earlier.after(commits)
    if followed is None:
        states, size, others = list[pa.Table](), 0, _batch_states(tables, view, batch)
        for some in others:
            states.append(some)
            size += some.nbytes
            if size > overflow.most:
                file = overflow.write(view, chain(states, others))
                large = LargeVersions(view, batch, cut, cut, (file,), no_states(view), overflow).after(commits)
                assert large is not None  # the commits tile the log from the cut on
                return large
        followed = _in_memory(view, batch, cut, states, commits)
    if isinstance(followed, LargeVersions) or followed.base.table.nbytes + followed.new.nbytes <= overflow.most:
        return followed
    file = overflow.write(view, [followed.base.table, followed.new])
    return LargeVersions(view, batch, cut, followed.end, (file,), no_states(view), overflow)


def versions_of_keys(view: View, files: Sequence[StatesByKey], new: pa.Table, keys: pa.Table) -> pa.Table:
    """The versions of these keys, as look-ups read them, and of keys with an equal hash; `new` are states in order of hashes."""
    hashes: Hashes = np.unique(states_by_key.key_hashes(keys))
    states = [states_by_key.load_keys(file, hashes) for file in files]
    return versions(view, states_by_key.unite(view, [*states, states_by_key.of_keys(new, hashes)]))


def overlay(base: pa.Table, added: pa.Table) -> pa.Table:
    """Versions as look-ups read them, with others in place of all that they have of the keys of these."""
    names = base.column_names[: base.column_names.index(VALID_FROM)]
    return pa.concat_tables([_join(base, added, names, "ANTI"), added])


def _batch_states(tables: Tables, view: View, batch: BatchView) -> Iterator[pa.Table]:
    """The states below the cut, a row group at a time."""
    place = Location.of(tables, batch.address(tables, view.name))
    for file, later in files_with_later(tables, place.address, batch.parts) if batch.parts else ():
        yield from stored(view, place, file.path, later)


def _in_memory(
    view: View, batch: BatchView, cut: Position, states: Sequence[pa.Table], commits: Sequence[Commit]
) -> TableVersions:
    base = VersionStates(view, merge_states(view, states))
    followed = TableVersions(batch, cut, cut, base, no_states(view)).after(commits)
    assert followed is not None  # the commits tile the log from the cut on
    return followed


def _with_commits(
    view: View, batch: BatchView, new: pa.Table, end: Position, commits: Sequence[Commit]
) -> tuple[pa.Table, Position] | None:
    """New states with those of commits from `end` on, and where these end; None if no commit begins there."""
    if not commits or commits[-1].end == end:
        return new, end
    first = next((number for number, commit in enumerate(commits) if commit.start == end), None)
    if first is None:
        return None
    more = [from_ipc(commit.partials[batch.states]) for commit in commits[first:]]
    together = merge_states(view, [new, *more]) if any(each.num_rows for each in more) else new
    return together, commits[-1].end


def _of_keys(view: View, states: pa.Table, others: pa.Table, kind: str) -> pa.Table:
    return _join(states, others, [name for name in view.keys if name != VALID_FROM], kind)


def _join(rows: pa.Table, others: pa.Table, names: Sequence[str], kind: str) -> pa.Table:
    """The rows that have a key of other rows, or have none, in their order."""
    equal = " AND ".join(f"{_STATES}.{quoted(name)} IS NOT DISTINCT FROM {_OTHERS}.{quoted(name)}" for name in names) or "true"
    sql = f"SELECT {_ROW} FROM {_STATES} {kind} JOIN {_OTHERS} ON {equal}"
    numbered = rows.select(names).append_column(_ROW, arrays.row_numbers(rows.num_rows))
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
    rows = states.select([column]).append_column(_ROW, arrays.row_numbers(states.num_rows))
    above = engine.query(sql, {_STATES: rows, _ENDS: pa.Table.from_pylist(ends, _ENDS_SCHEMA)})[_ROW].to_numpy()
    return states.take(arrays.from_numpy(np.sort(above), pa.int64()))
