"""Standing releases: kept up to date beside the live one, so that they can go live. Applied and not promoted, or live before.

A standing release has its own realtime tables, which the speed layer updates, and its own batch views and cuts, in records that
no reader follows. So one publication makes it live, by a promotion or a rollback, and answers do not go back in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, Literal

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, JournalSnapshot, Row
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.publications import SCHEMA as PUBLICATION
from tandem.ledger.publish.publications import NotPublishable, Publication, Publications, from_row, retained, to_row

Stage = Literal["applied", "built", "failed", "retired"]
"""applied: its realtime tables are updated, its batch views are being built. built: both exist. failed: it can no longer be
updated. retired: an operator or a newer release ended it."""

_OVER: Final = ("failed", "retired")


@dataclass(frozen=True)
class StandingRow:
    """The stage of a release, and its `state` as if it were live; the state's parent is the publication that was live.

    The state's kind is `promote` or `rollback` if it was to go live next.
    """

    number: int
    stage: Stage
    state: Publication

    @property
    def over(self) -> bool:
        """Whether the release is no longer kept up to date."""
        return self.stage in _OVER


SCHEMA: Final = pa.schema([("stage", pa.string()), *PUBLICATION])


@dataclass
class StandingReleases:
    """The states of releases: the records of standing ones, beside the publications. Both journals are opened once."""

    tables: Tables
    publications: Publications = field(init=False, repr=False)
    journal: Journal = field(init=False, repr=False)
    erasures: Erasures = field(init=False, repr=False)
    _known: tuple[JournalSnapshot, list[StandingRow]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.publications = Publications(self.tables)
        self.journal = Journal(self.tables, self.tables.control("standing"), SCHEMA)
        self.erasures = Erasures(self.tables)

    def record(self, stage: Stage, state: Publication, *, after: Publication | None = None) -> StandingRow:
        """Record the stage and state of a release.

        `after` is the state from which this one was derived. Raises NotPublishable if the release is live now, or has another
        state.
        """

        def row(_: JournalSnapshot) -> Row:
            live = self.publications.latest()
            if live is None or live.release == state.release:
                raise NotPublishable(f"release {state.release} is live now; run again")
            if after is not None and after != _newest(state.release, self.publications.history(), self.records()):
                raise NotPublishable(f"release {state.release} has changed its state; run again")
            return {**to_row(state), "stage": stage, "parent": live.number}

        stored = self.journal.add(row)
        assert stored is not None  # the row is never None
        return _from_row(stored)

    def newest(self, release: int) -> StandingRow | None:
        """The newest record of a release; None without a record. Raises Unreadable."""
        return next((one for one in reversed(self.records()) if one.state.release == release), None)

    def records(self) -> list[StandingRow]:
        """All records, oldest first. Raises Unreadable."""
        snapshot = self.journal.read()
        if self._known is None or self._known[0] is not snapshot:
            self._known = snapshot, [_from_row(row) for row in snapshot.rows()]
        return [*self._known[1]]

    def state_of(self, release: int) -> Publication | None:
        """The newest state of a release: the live publication if it is of that release, else its newest publication or record."""
        live = self.publications.latest()
        if live is None or live.release == release:
            return live
        return _newest(release, self.publications.history(), self.records())

    def claim(self) -> None:
        """Fence what runs before this one would still add, if this process has the lease of the views' tables.

        Call it before reading what a run is decided on. Raises Fenced, Unwritable.
        """
        self.publications.claim()
        self.journal.claim()


def cut_of(tables: Tables, release: int, source: str) -> Position:
    """The source's cut in the newest state of a release; the log's start if it has none."""
    state = StandingReleases(tables).state_of(release)
    return LOG_START if state is None else state.cut(source)


@dataclass
class Followed:
    """The releases that are kept up to date: the live one, those that were applied, and those that were live within `days`.

    Without those that are retired or failed.
    """

    standing: StandingReleases
    days: float

    def states(self, now: datetime) -> list[Publication]:
        """The newest state of each release, the live one first; empty before the first publication. Raises Unreadable."""
        return self._states(now)[0]

    def ready(self, now: datetime) -> list[Publication]:
        """Those of `states` that could go live: all but the live one and those whose views are being built."""
        states, _, records = self._states(now)
        # Of the records that these states come from: a newer one may be of a release that begins just now.
        building = {one.state.release: one.stage == "applied" for one in records}
        return [state for state in states[1:] if not building.get(state.release)]

    def retained(self, now: datetime, *, publications: int, since: datetime) -> list[Publication]:
        """All states that a reader may use. What no retained state needs may be deleted: realtime rows, batch versions.

        These are the publications by the policy (publications.retained), without those that an erasure has retired, the state of
        every release of `states`, and states that a promotion or rollback may publish at any moment, whatever their release has
        become since.
        """
        standing, every, records = self._states(now)
        erasure = self.standing.erasures.first_publication()
        first = 0 if erasure is None else erasure.publication
        kept = [each for each in retained(every, keep=publications, since=since) if each.number >= first]
        going = [state for state in _going_live(every, records) if state not in standing]
        return [*kept, *(state for state in (*standing, *going) if state not in kept)]

    def _states(self, now: datetime) -> tuple[list[Publication], list[Publication], list[StandingRow]]:
        """The states, and the publications and records that they come from.

        Records are read after publications: no record that follows on these publications is missed.
        """
        every, records = self.standing.publications.history(), self.standing.records()
        states = (_newest(release, every, records) for release in _standing(every, records, now - timedelta(days=self.days)))
        return [state for state in states if state is not None], every, records


def _standing(history: Sequence[Publication], known: Sequence[StandingRow], since: datetime) -> list[int]:
    """The numbers of the live release and of all standing ones."""
    if not history:
        return []
    live = history[-1].release
    until = {before.release: after.at for before, after in pairwise(history) if after.release != before.release}
    last = {each.release: each.number for each in history}
    newest = {one.state.release: one for one in known}

    def stands(release: int) -> bool:
        one = newest.get(release)
        if one is not None and one.state.parent >= last.get(release, 0):
            if one.over:
                return False
            if release not in until:
                return True
        return until[release] > since

    return [live, *(release for release in sorted({*until, *newest} - {live}) if stands(release))]


def _going_live(history: Sequence[Publication], known: Sequence[StandingRow]) -> list[Publication]:
    """The states that a promotion or rollback may be about to publish.

    The command records the state while this publication is live, and is refused as soon as another one is.
    """
    live = history[-1].number if history else 0
    said = (one.state for one in known if one.stage == "built" and one.state.parent >= live)
    return [state for state in said if state.kind in ("promote", "rollback")]


def _newest(release: int, history: Sequence[Publication], known: Sequence[StandingRow]) -> Publication | None:
    published = next((each for each in reversed(history) if each.release == release), None)
    one = next((one for one in reversed(known) if one.state.release == release), None)
    if published is not None and (one is None or one.state.parent < published.number):
        return published
    return None if one is None else one.state


def _from_row(row: Row) -> StandingRow:
    return StandingRow(row["number"], row["stage"], from_row(row))
