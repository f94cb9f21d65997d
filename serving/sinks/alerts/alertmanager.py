"""Prometheus's Alertmanager as a receiver of alerts, by its API v2.

Alertmanager groups, silences and routes. It holds what is raised, not edges: an alert that nobody repeats ends by itself. So all
raised rows are sent again with each edge, and every minute, to end minutes later unless they are repeated again.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.posting import post
from tandem.views.instant import utc_text

REPEAT: Final = timedelta(minutes=1)
_LASTS: Final = 5 * REPEAT
_PATH: Final = "/api/v2/alerts"


@dataclass
class Alertmanager:
    """Posts what is raised, and what has ended since, to an Alertmanager."""

    address: str
    timeout_s: float
    ca_file: str
    clock: Callable[[], datetime]
    name: str = "alertmanager"

    def __post_init__(self) -> None:
        self._posted = dict[str, datetime]()

    def send(self, edges: Sequence[Edge], raised: Sequence[Edge]) -> frozenset[str]:
        """Post all edges at once, and return their ids; nothing if there are none and what is raised was posted of late.

        Raises Undelivered.
        """
        now = self.clock()
        due = {edge.id: edge for edge in raised if now - self._posted.get(edge.id, now - REPEAT) >= REPEAT}
        newest = {edge.of: edge for edge in edges}
        alerts = [_alert(edge, now) for edge in (newest | {of: edge for of, edge in due.items() if of not in newest}).values()]
        if not alerts:
            return frozenset()
        body, address = json.dumps(alerts, ensure_ascii=False).encode(), f"{self.address.rstrip('/')}{_PATH}"
        post(address, body, {}, timeout_s=self.timeout_s, ca_file=self.ca_file)
        self._posted = {of: at for of, at in self._posted.items() if now - at < REPEAT} | dict.fromkeys(due, now)
        return frozenset(edge.id for edge in edges)


def _alert(edge: Edge, now: datetime) -> dict[str, Any]:
    """An edge as Alertmanager has alerts: its end is in the past once the row has ended."""
    labels = {"alertname": edge.alert, "view": edge.view}
    # A key may have the name of a label of ours; without its value, rows would be one alert there.
    place = {
        f"key_{name}" if name in labels else name: "NULL" if value is None else str(value) for name, value in edge.place.items()
    }
    notes = {"summary": edge.text, "id": edge.of, "kind": edge.kind, "because": edge.because}
    notes |= {"raised_row": _json(edge.raised.row), "raised_position": _json(edge.raised.basis.realtime)}
    if edge.kind != "raised":
        notes |= {"row": _json(edge.now.row), "position": _json(edge.now.basis.realtime)}
    ends = now + _LASTS if edge.kind == "raised" else max(edge.at, edge.since)
    return {
        # A label without a value is none, so NULL is written.
        "labels": {**place, **labels},
        "annotations": notes,
        "startsAt": utc_text(edge.since),
        "endsAt": utc_text(ends),
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
