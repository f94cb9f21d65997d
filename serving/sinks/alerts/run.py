"""Runs the alerts of a project in one process: each follows its view, and a thread for each receiver sends what is stored."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Final

from tandem.ledger.delta.addresses import Tables
from tandem.serving.memory.store import Pinned, Store
from tandem.serving.read.outcome import Failed
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.sinks.alerts.book import AlertDocument, Book, open_book
from tandem.serving.sinks.alerts.delivery import Receiver, deliver, keep_delivering
from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.alerts.follow import AlertFollower
from tandem.views.alert import Alert
from tandem.views.errors import TandemError

_END_S = 5.0
"""Seconds that a request at hand may take once the process was asked to end."""

_AGAIN: Final = timedelta(seconds=5)
"""After so long an alert that failed is tried again over the same answers."""

_REPEAT: Final = timedelta(minutes=1)
"""After so long a warning is repeated."""


@dataclass(frozen=True)
class _Failure:
    """The newest failed step of an alert: over which answers and when, and the warning of it, which was given at `warned`."""

    snapshot: Snapshot
    at: datetime
    sentence: str
    warned: datetime


@dataclass(frozen=True)
class AlertRunner:
    """The alerts of a process, by `alert_runner`. `warn` gets a sentence for a failure, which ends no other alert."""

    store: Store
    followers: Sequence[AlertFollower]
    receivers: Sequence[Receiver]
    warn: Callable[[str], object]
    _failures: dict[str, _Failure] = field(default_factory=dict, init=False, repr=False)

    @property
    def books(self) -> list[Book]:
        """What is stored of each alert."""
        return [follower.book for follower in self.followers]

    def step(self, pinned: Pinned) -> Iterator[Edge]:
        """Store a step of each alert to a snapshot, and give its edges. A failed alert waits for other answers, or a while."""
        for follower in self.followers:
            name, now = follower.alert.name, follower.clock()
            failure = self._failures.get(name)
            if failure is not None and failure.snapshot is pinned.snapshot and failure.at <= now < failure.at + _AGAIN:
                continue
            try:
                edges = follower.look(pinned)
            except TandemError as error:
                prefix = f"alert {name!r}: "
                sentence, warned = f"{prefix}{str(error).removeprefix(prefix)}", now
                if failure is not None and failure.sentence == sentence and now - failure.warned < _REPEAT:
                    warned = failure.warned
                else:
                    self.warn(sentence)
                self._failures[name] = _Failure(pinned.snapshot, now, sentence, warned)
            else:
                self._failures.pop(name, None)
                yield from edges

    def deliver(self) -> int:
        """Send to each receiver what is stored; how many edges were acknowledged. `warn` gets the failures."""
        number = 0
        for receiver in self.receivers:
            try:
                number += deliver(self.books, receiver)
            except TandemError as error:
                self.warn(f"{receiver.name}: {error}")
        return number

    def run(self, stop: Event, every_s: float, see: Callable[[Sequence[Edge]], object], check: Callable[[], object]) -> None:
        """Poll, store and send until `stop`; `see` gets the edges of each poll, and `check` may raise to end the run."""
        with self._delivering(stop) as news:
            last: Pinned | Failed | None = None
            while not stop.is_set():
                check()
                newest = self.store.refresh()
                if isinstance(newest, Failed):
                    if newest != last:
                        self.warn(newest.reason)
                elif edges := [*self.step(newest)]:
                    for event in news:
                        event.set()
                    see(edges)
                last = newest
                stop.wait(every_s)

    @contextmanager
    def _delivering(self, stop: Event) -> Iterator[list[Event]]:
        """A thread for each receiver; yields what wakes them."""
        news = [Event() for _ in self.receivers]
        threads = [
            Thread(target=keep_delivering, args=(self.books, receiver, stop, event, self.warn), daemon=True)
            for receiver, event in zip(self.receivers, news, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            yield news
        finally:
            stop.set()
            for event, thread in zip(news, threads, strict=True):
                event.set()
                thread.join(_END_S)


def alert_runner(
    store: Store,
    alerts: Collection[Alert],
    receivers: Sequence[Receiver],
    *,
    tables: Tables,
    clock: Callable[[], datetime],
    warn: Callable[[str], object],
) -> AlertRunner:
    """A runner of alerts from what is stored of them in `tables`, which nobody else writes. Raises Unreadable, Unwritable.

    A receiver that is not among `receivers` has no fault from now on: nobody tries it again.
    """
    names = tuple(receiver.name for receiver in receivers)

    def without_others(document: AlertDocument) -> AlertDocument:
        return replace(document, faults={name: fault for name, fault in document.faults.items() if name in names})

    followers = [AlertFollower(store, alert, open_book(tables, alert.name), names, clock) for alert in alerts]
    for follower in followers:
        follower.book.change(without_others)
    return AlertRunner(store, followers, receivers, warn)
