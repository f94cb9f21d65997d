"""Following a project from snapshot to snapshot: never back, and without reading anything twice."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.chain import HotCommits
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.log.history import SourceHistory, load_history
from tandem.ledger.log.positions import LOG_START, Position, distance, upper
from tandem.ledger.publish import publications
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.serving.read.late_tables import TableReader
from tandem.serving.read.outcome import Failed
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.selection import BadSelection
from tandem.serving.read.snapshot import Snapshot, tail
from tandem.views.errors import TandemError

UNPUBLISHED: Final = "nothing is published yet; `tandem up`, or the first `tandem speed`, creates the first publication"

HOLD_S: Final = 5.0
"""Seconds for which answers stay at a hot position that neither hot commits nor commits reach at the moment."""


class Hot(Protocol):
    """The hot commits of the sources of a release.

    `losses` counts how often the log may have lost records that hot commits count; it is read before they are.
    """

    losses: int

    def commits(self, release: int, source: str) -> HotCommits:
        """The hot commits of a source; they may not tile."""
        ...

    def clock(self) -> float:
        """Monotonic seconds."""
        ...

    def asked(self) -> None:
        """Somebody asks for answers: hot commits should not be late."""
        ...


@dataclass
class SnapshotFollower:
    """Follows the publications and, of the current one, every source's realtime table.

    It stays on a publication while the newest one is behind the reached position, as after a promotion whose realtime views are
    still catching up; meanwhile it follows the old one's tables.

    Hot commits, if there are any, continue the realtime tables. If they are missing for a while, the snapshot stays as it is, but
    not once the log may have lost records that it counts.

    With `asked` it follows the states of that release instead, as if it were promoted now.
    """

    tables: Tables
    hot: Hot | None = None
    asked: IfPromoted | None = None
    _held: Snapshot | None = field(default=None, init=False, repr=False)
    _reached: dict[str, Position] = field(default_factory=dict, init=False, repr=False)
    _hot_reached: dict[tuple[str, str], Position] = field(default_factory=dict, init=False, repr=False)
    _committed: dict[str, Position] = field(default_factory=dict, init=False, repr=False)
    _hold_until: float = field(default=float("-inf"), init=False, repr=False)
    _losses: int = field(default=0, init=False, repr=False)
    _newest: int = field(default=0, init=False, repr=False)
    _histories: tuple[Publication, Mapping[str, SourceHistory]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._versions = TableReader(self.tables)
        self._begin()

    def refresh(self) -> Snapshot | Failed:
        """The newest snapshot that does not move back.

        If the commits of a source do not tile the log from the cut on, the publication is read once more, since another one may
        have been published meanwhile; then the snapshot reports that source as untiled. Failed: nothing could be read.
        """
        losses = 0 if self.hot is None else self.hot.losses
        try:
            found = self._look()
            if found is not None and not found.tiled:
                found = self._look()
            if found is None:
                return Failed(UNPUBLISHED)
            live = found.publication.release
            if self._held is not None and self._behind(found):
                if _supersedes(found.publication, self._held.publication):
                    found = self._at(self._held.publication)
                elif self._behind_commits(found):
                    return Failed(self._stepped_back(found))
                if self.hot is not None and self._behind(found) and self._holding(self.hot):
                    return self._held
        except TandemError as error:
            self._begin()  # a table that was damaged or replaced while it was followed is read again once it is complete
            return Failed(str(error))
        self._hold(found, live, losses)
        return found

    def refresh_hot(self) -> Snapshot | None:
        """The held snapshot with the newest hot commits, without a read of tables; None if only `refresh` can tell.

        That is so if nothing is held, if records may be lost, and if hot commits are missing or do not continue the commits that
        were read last.
        """
        held, hot = self._held, self.hot
        if held is None or hot is None or (losses := hot.losses) != self._losses:
            return None
        tails: dict[str, RealtimeTail] = {}
        for source, stands in held.tails.items():
            commits = hot.commits(held.publication.release, source)
            if stands.hot and not commits:
                return None
            known = self._followed.get((held.publication.release, source))
            tails[source] = stands if known is None or not commits else known.last(stands).with_hot(commits)
        found = replace(held, tails=tails)
        if self._behind(found):
            return None
        self._hold(found, self._newest, losses)
        return found

    def _begin(self) -> None:
        self._followed: dict[tuple[int, str], _Realtime] = {}
        self._live, self._gaps = Publications(self.tables), Gaps(self.tables)

    def _look(self) -> Snapshot | None:
        if self.asked is not None:
            newest = self.asked.newest()
            return None if newest is None else self._at(newest.state, live=newest.live)
        live = self._live.latest()
        return None if live is None else self._at(live)

    def _at(self, publication: Publication, *, live: bool = True) -> Snapshot:
        tails = {source: self._tail(publication.release, source, cut) for source, cut in publication.cuts.items()}
        if self._histories is None or self._histories[0] != publication:
            self._histories = publication, histories(self.tables, publication)
        return Snapshot(publication, tails, self._gaps.every(), live, self._histories[1], self._versions)

    def _tail(self, release: int, source: str, cut: Position) -> RealtimeTail:
        # Hot commits first: commits that are read later reach at least as far as where these begin.
        hot = () if self.hot is None else self.hot.commits(release, source)
        return self._realtime(release, source).tail(cut).with_hot(hot)

    def _realtime(self, release: int, source: str) -> "_Realtime":
        return self._followed.setdefault((release, source), _Realtime(Follower(self.tables, release, source)))

    def _behind(self, found: Snapshot) -> bool:
        ends = found.positions
        live = found.publication.views
        views = (
            reached.at_or_below(found.tails[source].of(live[name].fingerprint).end)
            for (source, name), reached in self._hot_reached.items()
            if source in ends and name in live and not found.counted_elsewhere(name, source)
        )
        return not (all(self._reached.get(source, LOG_START).at_or_below(end) for source, end in ends.items()) and all(views))

    def _behind_commits(self, found: Snapshot) -> bool:
        return not all(self._committed.get(source, LOG_START).at_or_below(end) for source, end in found.positions.items())

    def _stepped_back(self, found: Snapshot) -> str:
        return (
            f"publication {found.publication.number} and its realtime tables are older than earlier answers; if the state folder "
            "was replaced, open a new reader"
        )

    def _holding(self, hot: Hot) -> bool:
        return hot.clock() < self._hold_until and hot.losses == self._losses

    def _hold(self, found: Snapshot, live: int, losses: int) -> None:
        self._held, self._newest, self._hot_reached = found, live, found.hot_positions
        for source, position in found.positions.items():
            tail = found.tails[source]
            self._committed[source] = upper(self._committed.get(source, LOG_START), tail.committed)
            # Without hot commits again, or with fewer, answers go on from there.
            known = self._reached.get(source, LOG_START) if self.hot is None else self._committed[source]
            self._reached[source] = upper(known, position)
        if self.hot is not None and any(tail.hot for tail in found.tails.values()):
            self._hold_until, self._losses = self.hot.clock() + HOLD_S, losses
        releases = {found.publication.release, live}  # two while the live one still has to catch up
        self._followed = {place: realtime for place, realtime in self._followed.items() if place[0] in releases}


@dataclass
class _Realtime:
    """A source's realtime table as it grows; its tail is rebuilt only if the commits or the cut changed."""

    follower: Follower
    _made: tuple[Sequence[Commit], RealtimeTail] | None = field(default=None, init=False, repr=False)

    def tail(self, cut: Position) -> RealtimeTail:
        """Its tail from the cut on, now. Raises Unreadable."""
        commits = self.follower.poll()
        if self._made is None or self._made[0] is not commits or self._made[1].cut != cut:
            self._made = commits, tail(commits, cut)
        return self._made[1]

    def last(self, tail: RealtimeTail) -> RealtimeTail:
        """Its tail as it was read last, if that is from the same cut on; else the tail that is given."""
        return tail if self._made is None or self._made[1].cut != tail.cut else self._made[1]


def _supersedes(live: Publication, held: Publication) -> bool:
    """Whether the live publication is a later one of another release, which may still have to catch up."""
    return live.number > held.number and live.release != held.release


@dataclass(frozen=True)
class PastPublication:
    """One publication for ever: everything below its cut, and nothing of the realtime views, which have moved on."""

    tables: Tables
    number: int

    def refresh(self) -> Snapshot | Failed:
        """The publication at its own cut. Failed: it is not retained, with the retained ones."""
        try:
            every = Publications(self.tables).history()
            publication = next((each for each in every if each.number == self.number), None)
            if publication is None or not publications.whole(self.tables, [publication]):
                left = ", ".join(str(each.number) for each in publications.whole(self.tables, every)) or "none"
                why = "it does not exist" if publication is None else "its batch views are no longer retained"
                return Failed(f"cannot answer from publication {self.number}: {why}; retained: {left}")
            tails = {source: RealtimeTail(cut, cut) for source, cut in publication.cuts.items()}
            past = histories(self.tables, publication)
            return Snapshot(publication, tails, Gaps(self.tables).every(), histories=past, reader=TableReader(self.tables))
        except TandemError as error:
            return Failed(str(error))


def histories(tables: Tables, publication: Publication) -> dict[str, SourceHistory]:
    """The histories of a publication's sources below its cuts, as they were when it was published. Raises Unreadable."""
    erasures = Erasures(tables)
    return {source: load_history(erasures, source, cut, publication.at) for source, cut in publication.cuts.items()}


def live_at(tables: Tables, time: datetime) -> int:
    """The number of the publication that was live at a time. Raises BadSelection before the first."""
    history = Publications(tables).history()
    found = publications.live_at(history, time)
    if found is None:
        first = f"the first publication is of {history[0].at.isoformat()}" if history else "there are no publications yet"
        raise BadSelection(f"nothing was published at {time.isoformat()}: {first}")
    return found.number


_LOOK_S = 0.05


def uncounted(found: Snapshot | Failed, wanted: Mapping[str, Position]) -> int:
    """How many offsets below the wanted position of each source, by name, the answers lack; all of them without an answer."""
    tails = found.tails if isinstance(found, Snapshot) else {}
    counted = {source: tail.end for source, tail in tails.items() if tail.problem is None}
    return sum(distance(counted.get(source, Position()), position) for source, position in wanted.items())


def until_counted(
    tables: Tables,
    wanted: Mapping[str, Position],
    *,
    seconds: float,
    asked: IfPromoted | None = None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Return 0 once answers count the wanted position of each source, else how many offsets they lack after this many seconds.

    With `asked` these are the answers of that release.
    """
    following, deadline = SnapshotFollower(tables, asked=asked), clock() + seconds
    while (left := uncounted(following.refresh(), wanted)) and clock() < deadline:
        pause(_LOOK_S)
    return left
