"""Follows the view of an alert from the stored token on, and stores the edges of each step before anybody may send them."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from tandem.ledger.united_positions import unite
from tandem.serving.changes import HEARTBEAT_S, Changes, ViewFollower, watch
from tandem.serving.connection import AtOneSnapshot
from tandem.serving.memory.changes_token import ChangesToken, TokenGone
from tandem.serving.memory.store import Pinned, Store
from tandem.serving.read.provenance import Provenance
from tandem.serving.sinks.alerts.book import AlertDocument, Book
from tandem.serving.sinks.alerts.definition import BoundAlert, bind_alert
from tandem.serving.sinks.alerts.episodes import AlertStep, Basis, Edge, Episode, Place, advance
from tandem.views.alert import Alert
from tandem.views.errors import TandemError
from tandem.views.instant import microseconds

MOST: Final = 10_000
"""Rows of an alert that may meet its condition at once."""


class TooManyRows(TandemError, code="alert-too-wide"):
    """More rows meet the condition of an alert than anybody can read."""


@dataclass
class AlertFollower:
    """An alert at the last stored step, for one thread. `receivers` are the names of those to whom edges are to be sent."""

    store: Store
    alert: Alert
    book: Book
    receivers: tuple[str, ...]
    clock: Callable[[], datetime]
    _watching: ViewFollower | None = field(default=None, init=False, repr=False)
    _bound: BoundAlert | None = field(default=None, init=False, repr=False)
    _at: tuple[Basis, str] | None = field(default=None, init=False, repr=False)
    _stored_at: datetime | None = field(default=None, init=False, repr=False)

    def look(self, pinned: Pinned) -> tuple[Edge, ...]:
        """Store the step to a snapshot, and return its edges.

        Raises Conflict if another process has stored a step, TooManyRows, DefinitionError for a condition that the published view
        does not take, UnknownView, ReadFailed, Unreadable, Unwritable; a later look goes on from what is stored.
        """
        try:
            return self._look(pinned)
        except TandemError:
            self._watching = None
            raise

    def _look(self, pinned: Pinned) -> tuple[Edge, ...]:
        try:
            if self._watching is None:
                self._watching = self._resume(pinned)
            if self._watching is not None:
                change = self._watching.look(pinned, always=True)
                return self._idle() if change is None else self._take(change)
        except TokenGone:
            pass
        return self._compare(pinned)

    def _resume(self, pinned: Pinned) -> ViewFollower | None:
        """The view from the stored token on; None if there is no token of the alert as it is now. Raises TokenGone."""
        document = self.book.document
        self._bound = bind_alert(self.alert, pinned.view(self.alert.view.name))
        if document.token is None or document.stamp != stamp(self.alert):
            return None
        self._at = None if document.basis is None else (document.basis, document.token)
        return watch(self.store, pinned, self.alert.view.name, ChangesToken.parse(document.token))

    def _compare(self, pinned: Pinned) -> tuple[Edge, ...]:
        """The step to all rows of a snapshot, from which the view is followed."""
        document, name = self.book.document, self.alert.view.name
        self._bound = bound = bind_alert(self.alert, pinned.view(name))
        now = AtOneSnapshot(self.store, pinned).view(name)
        answer = now.scan()
        before = document.basis if document.stamp == stamp(self.alert) else None
        rows = bound.rows(answer.table, frozenset(_by_place(document.episodes)))
        step = AlertStep(rows, (), before, basis_of(answer.provenance), self.clock(), whole=True, first=document.basis is None)
        edges = self._store(bound, step, now.token)
        self._watching = watch(self.store, pinned, name, ChangesToken.parse(now.token))
        return edges

    def _take(self, change: Changes) -> tuple[Edge, ...]:
        bound, at = self._bound, self._at
        assert bound is not None
        rows = bound.rows(change.rows.table, frozenset(_by_place(self.book.document.episodes)))
        before = None if at is None else at[0]
        step = AlertStep(rows, bound.places(change.gone), before, basis_of(change.provenance), self.clock())
        return self._store(bound, step, change.token)

    def _idle(self) -> tuple[Edge, ...]:
        """The step in which only time has passed: a row that waited is raised."""
        bound, at = self._bound, self._at
        assert bound is not None
        if not self.alert.hold or at is None:
            return ()
        basis, token = at
        return self._store(bound, AlertStep((), (), basis, basis, self.clock()), token)

    def _store(self, bound: BoundAlert, step: AlertStep, token: str) -> tuple[Edge, ...]:
        episodes, edges = advance(bound.terms, _by_place(self.book.document.episodes), step)
        if len(episodes) > MOST:
            raise TooManyRows(
                f"alert {self.alert.name!r}: {len(episodes):,} rows meet {self.alert.when!r}, more than {MOST:,}; narrow the "
                "condition, or shorten `within`"
            )
        after = tuple(episodes.values())

        def derive(document: AlertDocument) -> AlertDocument:
            # A token alone is stored now and then: from an older one of the same batch view the same edges follow.
            recent = self._stored_at is not None and (step.at - self._stored_at).total_seconds() < HEARTBEAT_S
            same = document.basis is not None and document.basis.batch == step.now.batch
            if not edges and after == document.episodes and recent and same and document.stamp == stamp(self.alert):
                return document
            moved = replace(document, stamp=stamp(self.alert), token=token, basis=step.now, episodes=after)
            return moved.with_edges(edges, self.receivers)

        before = self.book.document
        if self.book.change(derive) is not before:
            self._stored_at = step.at
        self._at = step.now, token
        return edges


def stamp(alert: Alert) -> str:
    """What the episodes of an alert depend on in its definition: with another one, all rows are compared."""
    parts = (alert.view.name, alert.when, alert.clear, tuple(alert.states), alert.hold, alert.within)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def basis_of(provenance: Provenance) -> Basis:
    """What an answer counts."""
    kept, sources = provenance.kept_from, provenance.sources
    cut, realtime = provenance.cut, provenance.realtime
    if sources:
        cut = unite({name: each.cut for name, each in sources.items()})
        realtime = unite({name: each.realtime for name, each in sources.items()})
    return Basis(
        provenance.publication,
        provenance.release,
        provenance.fingerprint,
        provenance.batch_version,
        cut.to_json(),
        realtime.to_json(),
        provenance.watermark,
        None if kept is None else microseconds(kept),
    )


def _by_place(episodes: Iterable[Episode]) -> dict[Place, Episode]:
    return {episode.row.place: episode for episode in episodes}
