"""What a reader has pinned: one publication, and per source the realtime commits that tile the log from its cut on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ledger.commits import Commit
from ledger.counts import Counts, plus
from ledger.gaps import Gap
from ledger.positions import Position
from ledger.publications import Publication
from ledger.tiling import boundary, chain


@dataclass(frozen=True)
class Tail:
    """The realtime side of one source: commits in order that tile `[cut, end)`.

    `problem` says why they cannot, if they cannot: none of the source's views has an answer then. `behind_bridge` says that
    the table goes on beyond a bridge, which is read once a batch view covers it.
    """

    cut: Position
    end: Position
    commits: tuple[Commit, ...] = field(default=(), repr=False)
    behind_bridge: bool = False
    problem: str | None = None

    @property
    def counts(self) -> Counts:
        """What became of the records of `[cut, end)`."""
        return plus(*(commit.counts for commit in self.commits))

    @property
    def newest(self) -> datetime | None:
        """The append time of the newest event of `[cut, end)`; None without events."""
        return max((commit.newest for commit in self.commits if commit.newest), default=None)


@dataclass(frozen=True)
class Snapshot:
    """A publication plus what its sources' realtime tables held at one look; `gaps` are all that were ever found."""

    publication: Publication
    tails: Mapping[str, Tail]
    gaps: tuple[Gap, ...] = ()

    @property
    def tiled(self) -> bool:
        """Whether every source can be answered."""
        return all(tail.problem is None for tail in self.tails.values())

    @property
    def positions(self) -> dict[str, Position]:
        """Where the answers of each source stand, of those that have answers."""
        return {source: tail.end for source, tail in self.tails.items() if tail.problem is None}

    def newest(self, source: str) -> datetime | None:
        """The append time of the newest event of a source that is counted; None without events."""
        times = (self.publication.newest.get(source), self.tails[source].newest)
        return max((time for time in times if time is not None), default=None)


def tail(commits: Sequence[Commit], cut: Position) -> Tail:
    """A source's commits, of which those from the cut on are the tail."""
    tiled = chain(commits, cut)
    problem = tiled.problem
    if problem is None and not boundary(commits, cut):
        problem = f"no commit starts or ends at the cut {cut}: the realtime table has lost some"
    if problem:
        return Tail(cut, cut, problem=problem)
    return Tail(cut, tiled.end, tiled.commits, behind_bridge=tiled.bridge is not None)
