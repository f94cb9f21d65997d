"""The states of a view: those of its batch versions, read without Spark, and those of realtime commits, as merged runs.

delta-rs lists the files of the version and Arrow reads them, so that an object store works like a folder.

A run is more than twice as large as the next, so that adding a commit merges few states however long the tail is, and a lookup
of one key filters a handful of tables. A merged partial cannot be split: a run that no longer starts at the cut, or no longer
ends where a commit ends, is folded again from the commits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import storage
from tandem.ledger.delta.errors import unreadable
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchPart, files_of, still_live
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.stored_states import row_group
from tandem.serving.read.selection import Selection
from tandem.views.arrow.arrays import from_ipc
from tandem.views.kernel.kernel import Partial, merge, roll
from tandem.views.view import View

HELD_BYTES = 64 * 2**20
"""A part of at most this many bytes is read once and cached; a larger one is filtered as it is read, each time."""


@dataclass
class BatchStates:
    """The live states of a view's table, in no particular order; `schema` is the view's state schema.

    A published part never changes (maintenance may rewrite its files, never its rows), so read parts are cached.
    """

    tables: Tables
    address: str
    schema: pa.Schema
    _held: dict[BatchPart, pa.Table] = field(default_factory=dict, init=False, repr=False)

    def read(self, parts: Sequence[BatchPart], selection: Selection) -> pa.Table:
        """The selected states of the parts of a publication. Raises Unreadable."""
        self._held = {part: held for part, held in self._held.items() if part in parts}
        found = [pa.Table.from_batches([], self.schema)]
        for number, part in enumerate(parts):
            found.append(still_live(self._part(part, selection), parts[number + 1 :]))
        return pa.concat_tables(found)

    def _part(self, part: BatchPart, selection: Selection) -> pa.Table:
        if part in self._held:
            return selection.filter(self._held[part])
        try:
            try:
                return self._read(part, selection)
            except FileNotFoundError:  # maintenance rewrote the files after the log was read
                return self._read(part, selection)
        except (OSError, pa.ArrowException) as error:
            unreadable(self.address, error)

    def _read(self, part: BatchPart, selection: Selection) -> pa.Table:
        handle, files = files_of(self.tables, self.address, part)
        states = (states for file in files for states in row_groups(handle, file.path, self.schema))
        if sum(file.size for file in files) > HELD_BYTES:
            return self._whole(selection.filter(some) for some in states)
        self._held[part] = self._whole(states)
        return selection.filter(self._held[part])

    def _whole(self, tables: Iterator[pa.Table]) -> pa.Table:
        return pa.concat_tables([pa.Table.from_batches([], self.schema), *tables])


def row_groups(handle: DeltaTable, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """The states of one file of a view's table, in pieces."""
    # Not pyarrow.dataset: importing it imports pandas, and the files are not sorted by anything that it could skip by.
    with storage(handle).open(path) as opened:
        file = pq.ParquetFile(opened, page_checksum_verification=True)
        for group in range(file.num_row_groups):
            yield row_group(file, group, schema)


def states_of(tables: Tables, release: int, view: View, fingerprint: str, commit: Commit) -> pa.Table:
    """The commit's states of the view, which it has under that fingerprint. Raises Unreadable if they are missing or damaged."""
    try:
        return roll(view, from_ipc(commit.partials[fingerprint]))
    except (KeyError, pa.ArrowException) as error:
        unreadable(f"{tables.realtime(release, view.source.name)}: [{commit.start}, {commit.end})", error)


@dataclass(frozen=True)
class MergedCommits:
    """The merged partial of the commits that tile `[start, end)`."""

    start: Position
    end: Position
    partial: Partial


Runs = tuple[MergedCommits, ...]
Decode = Callable[[Commit], Partial]


def follow(view: View, held: Runs, commits: Sequence[Commit], decode: Decode) -> Runs:
    """The runs of a chain of commits, which tile a range in order; those of `held` that fall on its boundaries are reused.

    Only commits past the reused runs are decoded.
    """
    runs = _reusable(held, commits)
    done = next((n for n, commit in enumerate(commits, 1) if runs and commit.end == runs[-1].end), 0)
    for commit in commits[done:]:
        runs = _append(view, runs, MergedCommits(commit.start, commit.end, decode(commit)))
    return runs


def _reusable(held: Runs, commits: Sequence[Commit]) -> Runs:
    """The longest prefix of the cached runs that starts where the chain starts and ends where one of its commits ends."""
    if not held or not commits or held[0].start != commits[0].start:
        return ()
    ends = {commit.end for commit in commits}
    return held[: next((n for n in range(len(held), 0, -1) if held[n - 1].end in ends), 0)]


def _append(view: View, runs: Runs, run: MergedCommits) -> Runs:
    """The runs with one more, merged into its predecessors while they are at most twice as large."""
    while runs and runs[-1].partial.states.num_rows <= 2 * run.partial.states.num_rows:
        run = MergedCommits(runs[-1].start, run.end, merge(view, [runs[-1].partial, run.partial]))
        runs = runs[:-1]
    return (*runs, run)
