"""Going on from snapshot to snapshot: never back, and without reading anything twice."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ledger import publications
from ledger.commits import Commit
from ledger.follower import Follower
from ledger.gaps import gaps
from ledger.positions import LOG_START, Position, upper
from ledger.publications import Publication
from ledger.tables import Tables
from serving.outcome import Failed
from serving.snapshot import Snapshot, Tail, tail
from views.errors import TandemError

UNPUBLISHED: Final = "nothing is published yet: `tandem up`, or the first `tandem speed`, makes the first publication"


@dataclass
class Following:
    """Follows the publications and, of the one that it stands on, every source's realtime table.

    It stays on a publication while the newest one lies behind what was reached, as after a promotion whose realtime views are
    still catching up; then it goes on along the old one's tables.
    """

    tables: Tables
    _held: Snapshot | None = field(default=None, init=False, repr=False)
    _reached: dict[str, Position] = field(default_factory=dict, init=False, repr=False)
    _followers: dict[tuple[int, str], Follower] = field(default_factory=dict, init=False, repr=False)
    _tails: dict[tuple[int, str], tuple[Sequence[Commit], Tail]] = field(default_factory=dict, init=False, repr=False)

    def refresh(self) -> Snapshot | Failed:
        """The newest snapshot that does not step back.

        If the commits of a source do not tile the log from the cut on, the publication is read once more, since another may
        have come in between; then that source is untiled in the snapshot. Failed: nothing could be read.
        """
        try:
            found = self._look()
            if found is not None and not found.tiled:
                found = self._look()
            if found is None:
                return Failed(UNPUBLISHED)
            if self._held is not None and self._behind(found):
                if not _supersedes(found.publication, self._held.publication):
                    return Failed(self._stepped_back(found))
                found = self._at(self._held.publication)
        except TandemError as error:
            self._followers.clear()  # a table that was damaged or replaced under a follower is read anew once it is well
            return Failed(str(error))
        self._hold(found)
        return found

    def _look(self) -> Snapshot | None:
        live = publications.latest(self.tables)
        return None if live is None else self._at(live)

    def _at(self, publication: Publication) -> Snapshot:
        return Snapshot(
            publication,
            {source: self._tail(publication.release, source, cut) for source, cut in publication.cuts.items()},
            tuple(gaps(self.tables)),
        )

    def _tail(self, release: int, source: str, cut: Position) -> Tail:
        commits, place = self._follower(release, source).poll().commits, (release, source)
        known = self._tails.get(place)
        if known is None or known[0] is not commits or known[1].cut != cut:
            known = self._tails[place] = commits, tail(commits, cut)
        return known[1]

    def _follower(self, release: int, source: str) -> Follower:
        return self._followers.setdefault((release, source), Follower(self.tables, release, source))

    def _behind(self, found: Snapshot) -> bool:
        return not all(self._reached.get(source, LOG_START).at_or_below(position) for source, position in found.positions.items())

    def _stepped_back(self, found: Snapshot) -> str:
        return (
            f"publication {found.publication.number} and its realtime tables lie behind what was answered before; "
            "was the state folder replaced? A new reader starts afresh"
        )

    def _hold(self, found: Snapshot) -> None:
        self._held = found
        for source, position in found.positions.items():
            self._reached[source] = upper(self._reached.get(source, LOG_START), position)
        release = found.publication.release
        self._followers = {place: follower for place, follower in self._followers.items() if place[0] == release}
        self._tails = {place: known for place, known in self._tails.items() if place in self._followers}


def _supersedes(live: Publication, held: Publication) -> bool:
    """Whether the live publication is a later one of another release, which may still have to catch up."""
    return live.number > held.number and live.release != held.release
