"""What alerts have stored, read as any engine reads it, beside the rows that must be raised by the expected answers.

Which rows are raised at a position follows from the rows there alone if the alert ends by the opposite of its condition, without
a pause. The project's generator repeats the condition in plain Python.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from tandem.cli.demo.checks.answers import SHOWN, DemoCheck, Row
from tandem.cli.demo.checks.stored_rows import Condition
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.sinks.alerts.book import RECENT, Book
from tandem.views.alert import Alert
from tandem.views.view import bind
from tandem.views.windows.placement import STATES, WINDOW_COLUMNS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class AlertCheck(DemoCheck):
    """As DemoCheck, with the number of rows for which the alert is raised; an answer is whether it is raised for a row."""

    raised: int = 0

    def to_json(self) -> dict[str, Any]:
        """The check as it is in the demo's document."""
        return {**super().to_json(), "raised": self.raised}


def comparable_alerts(alerts: Mapping[str, Alert], conditions: Mapping[str, Condition]) -> dict[str, Alert]:
    """The alerts whose raised rows follow from expected answers; `conditions` are those of the project's generator."""
    return {
        name: alert
        for name, alert in alerts.items()
        if name in conditions
        and (alert.clear, alert.hold, {*alert.states}) == (None, timedelta(0), {*STATES})
        and not bind(alert.view).placement.in_order
    }


def alert_document(tables: Tables, name: str, end: Position) -> dict[str, Any] | None:
    """The document that is stored of an alert; None until its token counts everything below a position."""
    address, options = tables.control(Book.folder, name), dict(tables.options)
    if not DeltaTable.is_deltatable(address, options):
        return None
    rows = pa.table(DeltaTable(address, storage_options=options).to_pyarrow_table()).to_pylist()
    document: dict[str, Any] = json.loads(rows[0]["document"]) if rows else {}
    token = document.get("token")
    return document if token is not None and end.at_or_below(ChangesToken.parse(token).end) else None


def compare_alert(name: str, alert: Alert, meets: Condition, rows: Sequence[Row], document: Mapping[str, Any]) -> AlertCheck:
    """Compare which rows are raised with the expected rows that meet the condition, and each edge with the row that it states.

    A row that meets the condition is raised exactly once, unless its window ended longer ago than `within`. An edge that ends
    another one is wrong without it, as long as all edges are stored.
    """
    edges, columns = _edges(document), [*alert.view.keys, WINDOW_COLUMNS[0]]
    ends = {edge["of"] for edge in edges if edge["kind"] != "raised"}
    complete = len(document["edges"]) < RECENT
    begun = {edge["id"] if complete else edge["of"] for edge in edges}
    active = Counter(_place(edge["place"]) for edge in edges if edge["kind"] == "raised" and edge["id"] not in ends)
    watermark = document["basis"]["watermark"]
    truth = {
        _place({column: row[column] for column in columns}): int(meets(row) and not _past(row, alert.within, watermark))
        for row in rows
    }
    places = sorted(truth.keys() | active.keys())
    wrong: list[Mapping[str, Any]] = [
        {"alert": alert.name, "row": json.loads(place), "truth": truth.get(place, 0), "answer": active[place]}
        for place in places
        if truth.get(place, 0) != active[place]
    ]
    wrong += [{"alert": alert.name, "edge": edge} for edge in edges if edge["of"] not in begun or not _true(edge, meets)]
    return AlertCheck(name, len(places), len(wrong), wrong[:SHOWN], active.total())


def _edges(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The stored edges in their order; of rows that are raised also those that are no longer listed."""
    edges = [each["edge"] for each in document["edges"]]
    if len(edges) < RECENT:
        return edges
    listed = {edge["id"] for edge in edges}
    of_raised = (episode["edge"] for episode in document["episodes"])
    return [*(edge for edge in of_raised if edge is not None and edge["id"] not in listed), *edges]


def _true(edge: Mapping[str, Any], meets: Condition) -> bool:
    """Whether the row of an edge is as its kind says."""
    row = edge["now"]["row"]
    if edge["kind"] == "raised":
        return row is not None and meets(row)
    return edge["because"] == "past" or row is None or not meets(row)


def _place(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _past(row: Row, within: timedelta, watermark: int | None) -> bool:
    end = row.get("window_end")
    if end is None or watermark is None:
        return False
    return datetime.fromisoformat(end) + within <= _EPOCH + timedelta(microseconds=watermark)
