"""The one writer of a release's realtime table for one source: claim, append, compact, expire.

    TandemError
    ├── NewerEpoch       another writer has claimed the table since; this one must stop
    └── NotContiguous    the commit does not start where the table ends, for instance behind a bridge

Each commit is conditional on the table version that it was decided on. So a writer that was paused or disconnected commits
nothing once another writer has claimed the table: its next commit conflicts, and it finds the newer epoch. Between machines a
speed layer has a lease, whose token its claims carry: it cannot claim a table again that a later holder has claimed. Commits
after a claim need no look at the token, which costs requests on an object store: they conflict with any later claim.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delete_table_files import checkpoint, vacuum
from tandem.ledger.delta.errors import Conflict, Unwritable
from tandem.ledger.delta.one_writer.refuse_other_writers import HeldLease
from tandem.ledger.delta.retries import commit_again
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.standing import cut_of
from tandem.ledger.realtime import compaction
from tandem.ledger.realtime.commit_files import open_or_create, read_commit, read_spans, to_rows
from tandem.ledger.realtime.commits import Commit, Span
from tandem.ledger.realtime.tiling import end
from tandem.views.errors import TandemError

_CHECKPOINT_EVERY = 200
"""Versions between two checkpoints: reading one costs a new reader less than that many log entries."""

_READ_HOURS = 1
"""How long a reader may read one version before its files are deleted; after that it reads the table again."""


class NewerEpoch(TandemError, code="writer-fenced"):
    """Another writer has claimed the table with a newer epoch."""


class NotContiguous(TandemError, code="commit-not-contiguous"):
    """A commit's start is not the table's end, which `end` holds."""

    def __init__(self, start: Position, end: Position, table: str) -> None:
        super().__init__(f"a commit from {start} cannot follow in table {table}, which ends at {end}; continue from there")
        self.end = end


@dataclass
class Writer:
    """Holds `epoch` of a realtime table whose commits reach `end`, the start of the next one. Make one with `claim`."""

    epoch: int
    end: Position
    _handle: DeltaTable = field(repr=False)
    _spans: dict[str, Span] = field(repr=False)
    _lease: HeldLease | None = field(default=None, repr=False)
    _checkpointed: int = field(default=0, repr=False)

    @classmethod
    def claim(cls, tables: Tables, release: int, source: str, *, by: str, at: datetime) -> "Writer":
        """Claim the table with a commit of a new epoch, which fences every earlier writer.

        The writer continues at the table's end; in an empty table at the release's published cut, else at the log's start.
        If the speed layer has a lease, its token is the table's from then on. Raises Fenced if a later holder's is there;
        Unwritable, Unreadable.
        """
        lease = tables.lease(tables.realtime(release, source))

        def attempt(handle: DeltaTable) -> "Writer":
            spans = read_spans(handle, {})
            start = end(spans.values())
            start = cut_of(tables, release, source) if start is None else start
            epoch = 1 + max((span.epoch for span in spans.values()), default=0)
            mark = Commit(start, start, epoch, "epoch", at=at, by=by)
            delta_tables.conditional_append(handle, to_rows(mark, handle), lease=lease)
            return cls(epoch, start, handle, spans, lease)

        return commit_again(open_or_create(tables, release, source), attempt)

    def append(self, commit: Commit) -> None:
        """Commit a micro-batch. `commit.epoch` is this writer's and `commit.start` its `end`.

        After an error of the storage it looks up whether the commit landed, and returns if it did. Raises NewerEpoch,
        LeaseLost, NotContiguous (continue at its `end`), and Unwritable if the commit did not land.
        """
        if commit.epoch != self.epoch:
            raise NewerEpoch(f"the commit has epoch {commit.epoch}, but the writer has epoch {self.epoch}")
        while True:
            if commit.start != self.end:
                raise NotContiguous(commit.start, self.end, self._handle.table_uri)
            if self._lease is not None:
                self._lease.check()
            try:
                delta_tables.conditional_append(self._handle, to_rows(commit, self._handle))
            except (Conflict, Unwritable) as error:
                self._look()
                if commit.key in {span.key for span in self._spans.values()}:
                    return
                self._refuse_fenced()
                if isinstance(error, Unwritable):
                    raise
            else:
                self.end = commit.end
                return

    def compact(
        self,
        merge: compaction.Merge,
        *,
        live: Position,
        protect: Iterable[Position] = (),
        at: datetime,
        fanout: int = compaction.FANOUT,
        recent: int = 0,
    ) -> int:
        """Merge neighbouring commits as `compaction.plan` decides. Returns the number of removed files.

        `live` is the release's published cut, `protect` the retained cuts and the archive's end, read after it; the `recent` last
        commits stay. If a cut is reserved meanwhile, that commit wins, and nothing is compacted this time. Raises NewerEpoch,
        Unwritable.
        """
        self._look()
        self._refuse_fenced()
        paths = {span: path for path, span in self._spans.items()}
        groups = compaction.plan(paths, live=live, protect=protect, fanout=fanout, recent=recent)
        if not groups:
            return 0
        ones = [compaction.merged([read_commit(self._handle, paths[span]) for span in group], merge) for group in groups]
        old = [paths[span] for group in groups for span in group]
        return self._replace(old, ones, at)

    def expire(self, cuts: Iterable[Position], *, at: datetime) -> int:
        """Remove the commits below all of these retained cuts of the release. Returns the number of removed files.

        The files stay on the disk for running reads (ledger/delta/delete_table_files.py). Raises NewerEpoch, Unwritable.
        """
        self._look()
        self._refuse_fenced()
        paths = {span: path for path, span in self._spans.items()}
        old = [paths[span] for span in compaction.expired(paths, cuts)]
        return self._replace(old, [], at) if old else 0

    def _replace(self, old: list[str], ones: list[Commit], at: datetime) -> int:
        try:
            rows = [to_rows(one, self._handle) for one in ones]
            delta_tables.conditional_replace(self._handle, old, rows, at=at)
        except Conflict:
            return 0
        self._look()
        if self._handle.version() - self._checkpointed >= _CHECKPOINT_EVERY:
            checkpoint(self._handle)
            vacuum(self._handle, hours=_READ_HOURS)
            self._checkpointed = self._handle.version()
        return len(old)

    def _look(self) -> None:
        """Bring handle, spans and end to the table's newest version."""
        self._handle = delta_tables.refresh(self._handle)
        self._spans = read_spans(self._handle, self._spans)
        self.end = end(self._spans.values()) or LOG_START

    def _refuse_fenced(self) -> None:
        newest = max((span.epoch for span in self._spans.values()), default=0)
        if newest > self.epoch:
            raise NewerEpoch(
                f"another writer has claimed table {self._handle.table_uri} with epoch {newest}; this writer had {self.epoch}"
            )
