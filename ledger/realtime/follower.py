"""Follow a realtime table as it grows; each commit is read once."""

from contextlib import suppress
from dataclasses import dataclass, field, replace

from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Vanished
from tandem.ledger.delta.watched_table import Watched
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime.commit_files import read_commit
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.compaction import in_order

_LOOKS = 3


@dataclass
class Follower:
    """Reads the realtime table of one release and source, and keeps the commits of the version that it has read.

    To save memory, commits that end at or below `dropped` come without their partials.
    """

    tables: Tables
    release: int
    source: str
    dropped: Position = LOG_START
    _known: dict[str, Commit] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._table = Watched(self.tables, self.tables.realtime(self.release, self.source), self._read)

    def poll(self) -> tuple[Commit, ...]:
        """The table's commits now, in log order. If the table has not changed, the same tuple, for the cost of one poll.

        Raises Unreadable.
        """
        for _ in range(_LOOKS - 1):
            # A compaction may remove files between our read of the Delta log and of the files.
            with suppress(Vanished):
                return self._table.read()
        return self._table.read()

    def _read(self, handle: DeltaTable | None) -> tuple[Commit, ...]:
        if handle is None:
            return ()
        self._known = {
            path: self._without(self._known[path] if path in self._known else read_commit(handle, path))
            for path in delta_tables.files(handle)
        }
        return tuple(in_order(self._known.values()))

    def _without(self, commit: Commit) -> Commit:
        return replace(commit, partials={}) if commit.partials and commit.end.at_or_below(self.dropped) else commit
