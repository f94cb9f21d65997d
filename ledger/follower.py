"""Following a realtime table as it grows, without reading anything twice."""

from contextlib import suppress
from dataclasses import dataclass, field

from deltalake import DeltaTable

from ledger import delta
from ledger.commit_files import read_commit
from ledger.commits import Commit
from ledger.compaction import in_order
from ledger.positions import Position
from ledger.tables import Tables
from ledger.tiling import end
from ledger.watched import Watched

_LOOKS = 3


@dataclass(frozen=True)
class Followed:
    """What one look found. `commits` are the table's now, in the log's order.

    `added` are those among them that lie beyond all that was there at the look before, in order: what a reader adds to what it
    has. Commits that were only rewritten by compaction are not among them. `rebuild` says that this is not possible, since
    a rewritten commit holds old and new together: start again from `commits`.
    """

    commits: tuple[Commit, ...]
    added: tuple[Commit, ...]
    rebuild: bool


@dataclass
class Follower:
    """Reads the realtime table of one release and source; its state is the table and the commits it has read, at a version."""

    tables: Tables
    release: int
    source: str
    _known: dict[str, Commit] = field(default_factory=dict, init=False, repr=False)
    _newest: tuple[Commit, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        self._table = Watched(self.tables, self.tables.realtime(self.release, self.source), self._read)

    def poll(self) -> Followed:
        """Look for new commits; without any this costs one look at the log, and the commits are the same tuple.

        Raises Unreadable.
        """
        for _ in range(_LOOKS - 1):
            # Compaction may take out files between our look at the log and at them.
            with suppress(delta.Vanished):
                return self._look()
        return self._look()

    def _look(self) -> Followed:
        before, commits = self._newest, self._table.read()
        if commits is before:
            return Followed(commits, (), rebuild=False)
        self._newest, reached = commits, end(before)
        added = tuple(commit for commit in commits if _beyond(commit, reached))
        rebuild = reached is not None and any(not reached.at_or_below(commit.start) for commit in added)
        return Followed(commits, added, rebuild)

    def _read(self, handle: DeltaTable | None) -> tuple[Commit, ...]:
        if handle is None:
            return ()
        self._known = {
            path: self._known[path] if path in self._known else read_commit(handle, path) for path in delta.files(handle)
        }
        return tuple(in_order(self._known.values()))


def _beyond(commit: Commit, before: Position | None) -> bool:
    return not commit.mark and (before is None or not commit.end.at_or_below(before))
