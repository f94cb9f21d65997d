"""The demo's observations: the position of each layer in the log, and the answers of the merged reader."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import Position, distance
from tandem.serving.read.outcome import Absent, Value, given
from tandem.serving.read.provenance import Layer, age
from tandem.serving.read.reader import Reader
from tandem.serving.read.snapshot import RealtimeTail, Snapshot
from tandem.views.fingerprint.fingerprint import decoder_fingerprint
from tandem.views.project.project import Project


@dataclass(frozen=True)
class Look:
    """The positions at one moment: the log's end, and the position of each layer."""

    at: datetime
    log_end: Position
    archived: Position
    cut: Position
    realtime: Position
    publication: int
    newest: datetime | None

    @property
    def tail(self) -> int:
        """Records that answers take from realtime views."""
        return distance(self.cut, self.realtime)

    @property
    def freshness(self) -> float | None:
        """Seconds since the newest event counted was appended."""
        return age(self.newest, now=self.at)

    def to_json(self) -> dict[str, Any]:
        """The positions as they are in the demo's document."""
        named = {"log_end": self.log_end, "archived": self.archived, "cut": self.cut, "realtime": self.realtime}
        return {name: position.to_json() for name, position in named.items()}


@dataclass
class Watcher:
    """Observes one source of a project from outside: as a client of its broker and a reader of its tables."""

    settings: Settings
    project: Project
    source: str
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = Reader(Tables.of(self.settings))
        self._tables = self.reader.tables
        self._topics = self.project.sources[self.source].topics
        self._decoder = decoder_fingerprint(self.project.sources[self.source])
        self._connection = kafka.connect(broker.address(self.settings))
        self.views = {name: view for name, view in self.project.views.items() if view.source.name == self.source}

    def log_end(self) -> Position:
        """The end of the source's topics."""
        return Position.of(kafka.ends(self._connection, kafka.topics(self._connection, self._topics)))

    def look(self) -> Look | None:
        """Pin the newest snapshot and return all positions; None until the view can be answered."""
        snapshot = self.reader.refresh()
        if not isinstance(snapshot, Snapshot) or not isinstance(tail := snapshot.tails.get(self.source), RealtimeTail):
            return None
        return Look(
            at=datetime.now(UTC),
            log_end=self.log_end(),
            archived=ArchiveLedger(self._tables, self.source).archived(),
            cut=tail.cut,
            realtime=tail.end,
            publication=snapshot.publication.number,
            newest=_newest(snapshot, self.source),
        )

    def realtime(self) -> Position | None:
        """The position of the answers at the newest snapshot; None while there is none."""
        snapshot = self.reader.refresh()
        return snapshot.positions.get(self.source) if isinstance(snapshot, Snapshot) else None

    def answer(self, view: str, layer: Layer = "merged", limit: int | None = None) -> Value | Absent:
        """A view's answer at the pinned snapshot. Raises ReadFailed."""
        return given(self.reader.answer(view, layer=layer, limit=limit))

    def answers(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every merged view at the pinned snapshot."""
        return {view: self.answer(view).rows() for view in self.views}


def _newest(snapshot: Snapshot, source: str) -> datetime | None:
    tail = snapshot.tails.get(source)
    times = [snapshot.publication.newest.get(source), tail.newest if isinstance(tail, RealtimeTail) else None]
    return max((time for time in times if time is not None), default=None)
