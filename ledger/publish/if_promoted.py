"""A release as if it were promoted now: what readers follow to ask a release before it is live."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.promotion import NotReady, chosen
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.standing import StandingReleases


class ReleaseState(NamedTuple):
    """A release's newest state, and whether it is live."""

    state: Publication
    live: bool


@dataclass
class IfPromoted:
    """The state that a promotion of a release would publish now. `days` is for how long a release stands (see Followed).

    The release's own batch versions and cuts, so that a reader merges them with the release's own realtime tables. Once the
    release is live, it is the live publication. Its journals are opened once.
    """

    tables: Tables
    release: int
    days: float
    now: Callable[[], datetime] = clock.now
    _standing: StandingReleases = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._standing = StandingReleases(self.tables)

    def newest(self) -> ReleaseState | None:
        """The state; None before the first publication. Its number is that of the publication that is live meanwhile.

        Raises NotReady with the reason for a release that is not ready, Unreadable.
        """
        live = self._standing.publications.latest()
        if live is None or live.release == self.release:
            return None if live is None else ReleaseState(live, live=True)
        try:
            state = chosen(self._standing, self.release, days=self.days, at=self.now())
        except NotReady:
            promoted = self._standing.publications.latest()
            if promoted is None or promoted.release != self.release:
                raise
            return ReleaseState(promoted, live=True)
        return ReleaseState(replace(state, number=live.number, parent=live.number), live=False)
