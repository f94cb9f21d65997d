"""Where each alert stands, in numbers: what is raised, and what its receivers lack."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tandem.ledger.delta.addresses import Tables
from tandem.serving.sinks.alerts import book
from tandem.serving.sinks.alerts.book import AlertDocument, active_edges
from tandem.views.counted import counted
from tandem.views.instant import utc_text


@dataclass(frozen=True)
class AlertStands:
    """What is stored of an alert, in numbers.

    Args:
        raised: rows, each of a key and window, for which it is raised.
        waiting: rows that meet the condition, and are raised after `hold`.
        unsent: by receiver, edges that it has not acknowledged.
        faults: by receiver, why the newest attempt failed.
        at: when the newest edge was.
    """

    alert: str
    raised: int
    waiting: int
    unsent: Mapping[str, int]
    faults: Mapping[str, str]
    at: datetime | None

    @property
    def problem(self) -> str | None:
        """Which receivers do not acknowledge edges, and why; None if none has failed."""
        if not self.faults:
            return None
        lacks = {receiver: counted(self.unsent.get(receiver, 0), "edge") for receiver in self.faults}
        return f"alert {self.alert}: {'; '.join(f'{who} lacks {lacks[who]}: {fault}' for who, fault in self.faults.items())}"

    def to_json(self) -> dict[str, Any]:
        """The alert as `tandem status --json` has it."""
        return {**asdict(self), "at": None if self.at is None else utc_text(self.at), "problem": self.problem}


def stands(name: str, document: AlertDocument) -> AlertStands:
    """Where an alert stands by what is stored of it."""
    times = [each.edge.at for each in document.edges if not each.edge.quiet]
    waiting = sum(episode.edge is None for episode in document.episodes)
    return AlertStands(name, len(active_edges(document)), waiting, document.lacking, document.faults, max(times, default=None))


def alert_stands(tables: Tables) -> list[AlertStands]:
    """The alerts that have ever run, by name. Raises Unreadable."""
    documents = ((name, book.load_document(tables, name)) for name in book.names(tables))
    return [stands(name, document) for name, document in documents if document is not None]
