"""What is stored of an alert: its episodes and edges, with the token up to which they are the view's, in one row of a table.

Each change replaces the row in one commit, on the condition that nobody else has committed since the row was read. So a process
may be killed at any point, and of two processes the second is refused before it sends anything.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import RLock
from typing import Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Conflict, Unreadable, Unwritable
from tandem.serving.sinks.alerts.episodes import Basis, Edge, Episode

RECENT: Final = 200
"""Edges that stay after they were sent, to be listed."""

_FOLDER: Final = "alerts"
_SCHEMA: Final = pa.schema([("document", pa.string())])
_SETTINGS: Final = {"delta.checkpointInterval": "100", "delta.logRetentionDuration": "interval 1 days"}


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


@dataclass
class Book:
    """The document of an alert, for the threads of one process; open it by `open_book`."""

    document: AlertDocument
    _handle: DeltaTable = field(repr=False)
    _lock: RLock = field(default_factory=RLock, init=False, repr=False)

    def change(self, derive: Callable[[AlertDocument], AlertDocument]) -> AlertDocument:
        """Store what `derive` makes of the document.

        Raises Conflict if another process has stored since, and Unwritable. Then the document is the stored one.
        """
        with self._lock:
            document = derive(self.document)
            if document == self.document:
                return document
            rows = pa.Table.from_pylist([{"document": msgspec.json.encode(document).decode()}], _SCHEMA)
            files = delta_tables.files(self._handle)
            try:
                delta_tables.conditional_replace(self._handle, files, [rows], at=datetime.now(UTC))
            except (Conflict, Unwritable):
                self._handle = delta_tables.reopen(self._handle)
                self.document = _load(self._handle)
                raise
            self._handle = delta_tables.refresh(self._handle)
            self.document = document
            return document


def open_book(tables: Tables, name: str) -> Book:
    """The book of an alert, created empty if it does not exist. Raises Unreadable, Unwritable."""
    handle = delta_tables.create_table(tables, tables.control(_FOLDER, name), _SCHEMA, _SETTINGS)
    return Book(_load(handle), handle)


def load_document(tables: Tables, name: str) -> AlertDocument | None:
    """What is stored of an alert now; None if it has never run. Raises Unreadable."""
    handle = delta_tables.open_table(tables, tables.control(_FOLDER, name))
    return None if handle is None else _load(handle)


def names(tables: Tables) -> list[str]:
    """The names of the alerts that have ever run, sorted."""
    return tables.names("control", _FOLDER)


def _load(handle: DeltaTable) -> AlertDocument:
    rows = [row for path in delta_tables.files(handle) for row in delta_tables.read_file(handle, path).to_pylist()]
    if not rows:
        return AlertDocument()
    try:
        return msgspec.json.decode(rows[0]["document"], type=AlertDocument)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"table {handle.table_uri} has a document of another version: {error}") from error
