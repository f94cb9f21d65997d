"""Erase what alerts and sinks have stored of rows that counted erased records: edges, and messages that wait for a receiver.

It is not known which rows counted the records: neither the condition nor the records are left. So of each row what is stored
becomes what the view says now, without the records, and nothing stays of a row that the view no longer has.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from tandem.ledger.delta.addresses import Tables
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.sinks.alerts import book
from tandem.serving.sinks.alerts.book import AlertDocument, OutgoingEdge
from tandem.serving.sinks.alerts.definition import bind_alert
from tandem.serving.sinks.alerts.episodes import AlertRow, Edge, Place, StatedRow
from tandem.serving.sinks.outbox import Outbox, OutboxDocument
from tandem.views.alert import Alert
from tandem.views.composite.table import reads_records_of


def erase_stored_rows(tables: Tables, source: str, alerts: Mapping[str, Alert]) -> None:
    """Erase what is stored of views that read a source, and all old files of it; the live publication counts without the records.

    Each alert and sink is one commit, on which its process goes on. Idempotent. An alert that is not among `alerts` loses all
    that is stored. Raises DefinitionError, ReadFailed, Unreadable, Unwritable.
    """
    reader = Reader(tables)
    others = {name for name, view in reader.project().every_view.items() if not reads_records_of(view, source)}
    for name in book.names(tables):
        alert = alerts.get(name)
        if alert is None or alert.view.name not in others:
            book.open_book(tables, name).rewrite(partial(_alert_without, alert=alert, reader=reader))
    for name in tables.names("control", Outbox.folder):
        Outbox.of(tables, name).rewrite(partial(_outbox_without, others=others))


def _outbox_without(document: OutboxDocument, others: Collection[str]) -> OutboxDocument:
    """The document without messages, and with a lost token: the sink goes on with a complete snapshot, or is refused.

    It stays as it is if its messages are of `others`.
    """
    if not document.left or json.loads(document.left[0].body)["view"] in others:
        return document
    return replace(document, stamp="", left=())


def _alert_without(document: AlertDocument, alert: Alert | None, reader: Reader) -> AlertDocument:
    """The document with the rows that the view has: of edges those that wait, and those of raised rows."""
    if alert is None or alert.view.name not in reader.project().every_view:
        return AlertDocument()
    edges = [each for each in document.edges if each.left]
    places = {*(each.row.place for each in document.episodes), *(_place(each.edge) for each in edges)}
    bound = bind_alert(alert, reader.view(alert.view.name))
    rows = {row.place: row for row in bound.rows(given(reader.answer(alert.view.name)).table, places)} if places else {}
    episodes = (
        replace(each, row=_as_now(each.row, rows[each.row.place]), edge=each.edge and _edge_as_now(each.edge, rows))
        for each in document.episodes
        if each.row.place in rows
    )
    left = (OutgoingEdge(_edge_as_now(each.edge, rows), each.left) for each in edges if _place(each.edge) in rows)
    return replace(document, episodes=tuple(episodes), edges=tuple(left))


def _as_now(row: AlertRow, now: AlertRow) -> AlertRow:
    """A row with the values of now. That it met the condition stays: its end is a correction."""
    return replace(row, row=now.row, text=now.text)


def _edge_as_now(edge: Edge, rows: Mapping[Place, AlertRow]) -> Edge:
    now = rows[_place(edge)]
    return replace(edge, text=now.text, raised=StatedRow(now.row, edge.raised.basis), now=StatedRow(now.row, edge.now.basis))


def _place(edge: Edge) -> Place:
    return tuple(edge.place.items())
