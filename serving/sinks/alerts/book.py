"""What is stored of an alert: its episodes and edges, with the token up to which they are the view's."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from tandem.ledger.delta.addresses import Tables
from tandem.serving.sinks.alerts.episodes import Basis, Edge, Episode
from tandem.serving.sinks.stored_document import StoredDocument

RECENT: Final = 200
"""Edges that stay after they were sent, to be listed."""


@dataclass(frozen=True)
class OutgoingEdge:
    """An edge, and the receivers that have not acknowledged it."""

    edge: Edge
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlertDocument:
    """The state of an alert; `stamp` is of the definition under which it was computed, `token` of the view.

    `faults` are, by receiver, why the newest attempt failed.
    """

    stamp: str = ""
    token: str | None = None
    basis: Basis | None = None
    episodes: tuple[Episode, ...] = ()
    edges: tuple[OutgoingEdge, ...] = ()
    faults: dict[str, str] = field(default_factory=dict)

    def with_edges(self, edges: tuple[Edge, ...], receivers: tuple[str, ...]) -> "AlertDocument":
        """The document with more edges, which are to be sent to these receivers unless they are quiet."""
        more = (OutgoingEdge(edge, () if edge.quiet else receivers) for edge in edges)
        return replace(self, edges=_newest((*self.edges, *more)))

    def acknowledge(self, receiver: str, ids: frozenset[str]) -> "AlertDocument":
        """The document after a receiver has acknowledged edges."""
        edges = tuple(
            replace(each, left=tuple(name for name in each.left if name != receiver)) if each.edge.id in ids else each
            for each in self.edges
        )
        faults = {name: fault for name, fault in self.faults.items() if name != receiver}
        return replace(self, edges=_newest(edges), faults=faults)

    @property
    def lacking(self) -> dict[str, int]:
        """By receiver, the number of edges that it has not acknowledged."""
        return dict(sorted(Counter(name for each in self.edges for name in each.left).items()))

    def unsent(self, receiver: str) -> tuple[Edge, ...]:
        """The edges that a receiver has not acknowledged, the oldest first."""
        return tuple(each.edge for each in self.edges if receiver in each.left)


def active_edges(document: AlertDocument) -> tuple[Edge, ...]:
    """The edges of the rows that are raised, and not quietly."""
    return tuple(each.edge for each in document.episodes if each.edge is not None and not each.quiet)


def _newest(edges: tuple[OutgoingEdge, ...]) -> tuple[OutgoingEdge, ...]:
    """All edges that are to be sent, and the newest of the others."""
    done = [each for each in edges if not each.left]
    dropped = {each.edge.id for each in done[: max(0, len(done) - RECENT)]}
    return tuple(each for each in edges if each.left or each.edge.id not in dropped)


class Book(StoredDocument[AlertDocument]):
    """The document of an alert, for the threads of one process; open it by `open_book`."""

    kind = AlertDocument
    folder = "alerts"


def open_book(tables: Tables, name: str) -> Book:
    """The book of an alert, created empty if it does not exist. Raises Unreadable, Unwritable."""
    return Book.of(tables, name)


def load_document(tables: Tables, name: str) -> AlertDocument | None:
    """What is stored of an alert now; None if it has never run. Raises Unreadable."""
    return Book.load(tables, name)


def names(tables: Tables) -> list[str]:
    """The names of the alerts that have ever run, sorted."""
    return tables.names("control", Book.folder)
