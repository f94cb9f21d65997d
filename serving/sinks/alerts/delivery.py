"""Sends what is stored of alerts to a receiver, in order, until it has acknowledged each edge."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from threading import Event
from typing import Final, Protocol

from tandem.infra.settings import AlertSettings
from tandem.serving.sinks.alerts.alertmanager import Alertmanager
from tandem.serving.sinks.alerts.book import AlertDocument, Book, active_edges
from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.alerts.webhook import SIGNING, Webhook
from tandem.serving.sinks.posting import Undelivered, check_address, key_of, wait_s
from tandem.views.errors import TandemError

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
"""Seconds before the first repeated attempt, and at most between two."""


class Receiver(Protocol):
    """Somebody who gets the edges of alerts, by a name."""

    @property
    def name(self) -> str:
        """Its name in the document of an alert."""

    def send(self, edges: Sequence[Edge], raised: Sequence[Edge]) -> frozenset[str]:
        """Send some of the edges, the oldest first, and return the ids of those that it has acknowledged.

        `raised` are the edges of all rows that are raised now. Raises Undelivered.
        """


def receivers_of(settings: AlertSettings, clock: Callable[[], datetime]) -> tuple[Receiver, ...]:
    """The receivers that the settings name. Raises TandemError for an address or secret that cannot be used."""
    receivers: list[Receiver] = []
    if settings.alertmanager:
        check_address("the setting `alerts.alertmanager`", settings.alertmanager)
        receivers.append(Alertmanager(settings.alertmanager, settings.timeout_s, settings.ca_file, clock))
    if settings.webhook:
        check_address("the setting `alerts.webhook`", settings.webhook)
        if not settings.secret:
            raise TandemError("`alerts.webhook` needs a secret that signs what is sent; set TANDEM_ALERTS_SECRET")
        key_of(SIGNING, settings.secret)
        receivers.append(Webhook(settings.webhook, settings.secret, settings.timeout_s, settings.ca_file, clock))
    return tuple(receivers)


def deliver(books: Collection[Book], receiver: Receiver) -> int:
    """Send all that is stored and not acknowledged; how many edges were. Raises Undelivered, Conflict, Unwritable."""
    number = 0
    for book in books:
        while True:
            document = book.document
            edges = document.unsent(receiver.name)
            try:
                ids = receiver.send(edges, active_edges(document))
            except Undelivered as error:
                _note_fault(book, receiver.name, str(error))
                raise
            # Without edges too: an Alertmanager has answered again.
            if ids or receiver.name in document.faults:
                book.change(lambda stored, ids=ids: stored.acknowledge(receiver.name, ids))  # type: ignore[misc]
            number += len(ids)
            if len(ids) == len(edges):
                break
    return number


def keep_delivering(books: Collection[Book], receiver: Receiver, stop: Event, news: Event, warn: Callable[[str], object]) -> None:
    """Deliver whenever there are news, until `stop`; after a failure later and later."""
    pause = FIRST_S
    while not stop.is_set():
        news.clear()
        try:
            deliver(books, receiver)
        except TandemError as error:
            wait = wait_s(error, pause)
            warn(f"{receiver.name}: {error}; the next attempt is in {wait:g} s")
            stop.wait(wait)
            pause = min(LONGEST_S, 2 * pause)
        else:
            pause = FIRST_S
            news.wait(FIRST_S)


def _note_fault(book: Book, receiver: str, fault: str) -> None:
    def derive(document: AlertDocument) -> AlertDocument:
        return replace(document, faults={**document.faults, receiver: fault})

    book.change(derive)
