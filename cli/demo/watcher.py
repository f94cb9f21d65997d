"""The demo's observations: the position of each layer in the log, and the answers of the merged reader."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tandem.cli.records.record_keys import SourceSample, keyed
from tandem.infra import clock, kafka
from tandem.infra.kafka import broker
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import Position, distance
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Value, given
from tandem.serving.read.provenance import Layer, age
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import Snapshot
from tandem.views.project.project import Project
from tandem.views.source.united_source import names_of


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
    """Observes sources of a project from outside: as a client of its broker and a reader of its tables.

    Positions are those of all these sources together: vectors of their partitions.
    """

    settings: Settings
    project: Project
    sources: Sequence[str]
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = Reader(Tables.of(self.settings))
        self._tables = self.reader.tables
        self._topics = tuple(topic for name in self.sources for topic in self.project.sources[name].topics)
        self._connection = kafka.connect(broker.address(self.settings))
        self.every_view = {
            name: view for name, view in self.project.every_view.items() if {*names_of(view.source.name)} <= {*self.sources}
        }

    def log_end(self) -> Position:
        """The end of the sources' topics."""
        return Position.of(kafka.ends(self._connection, kafka.topics(self._connection, self._topics)))

    def anything(self) -> bool:
        """Whether the log has records."""
        return bool(sum(self.log_end().values()))

    def append(self, sample: SourceSample) -> Position:
        """Append a sample to the first topic of its source; the end of the log after it."""
        (key, value, _, source) = next(keyed(self.project.sources, [sample]))
        with kafka.Sender(self._connection.address) as sender:
            sender.send(self.project.sources[source].topics[0], value, key)
        return self.log_end()

    def look(self) -> Look | None:
        """Pin the newest snapshot and return all positions; None until the view can be answered."""
        snapshot = self.reader.refresh()
        if not isinstance(snapshot, Snapshot):
            return None
        tails = [tail for name in self.sources if isinstance(tail := snapshot.tails.get(name), RealtimeTail)]
        if len(tails) < len(self.sources):
            return None
        return Look(
            at=clock.now(),
            log_end=self.log_end(),
            archived=_together(ArchiveLedger(self._tables, name).archived() for name in self.sources),
            cut=_together(tail.cut for tail in tails),
            realtime=_together(tail.end for tail in tails),
            publication=snapshot.publication.number,
            newest=_newest(snapshot, self.sources),
        )

    def realtime(self) -> Position | None:
        """The position of the answers at the newest snapshot; None while there is none."""
        snapshot = self.reader.refresh()
        if not isinstance(snapshot, Snapshot):
            return None
        positions = [snapshot.positions.get(name) for name in self.sources]
        return None if None in positions else _together(position for position in positions if position is not None)

    def commit_end(self, source: str) -> Position:
        """Where the commits of a source end at the pinned snapshot."""
        return self.reader.snapshot().tails[source].committed

    def answer(self, view: str, layer: Layer = "merged", limit: int | None = None) -> Value | Absent:
        """A view's answer at the pinned snapshot. Raises ReadFailed."""
        return given(self.reader.answer(view, layer=layer, limit=limit))

    def answers(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every merged view and rollup at the pinned snapshot."""
        return {view: self.answer(view).rows() for view in self.every_view}


def _together(positions: Iterable[Position]) -> Position:
    """One position of all partitions: topics of different sources have different ids."""
    return Position.of({place: offset for position in positions for place, offset in position.items()})


def _newest(snapshot: Snapshot, sources: Sequence[str]) -> datetime | None:
    tails = [snapshot.tails.get(source) for source in sources]
    times = [snapshot.publication.newest.get(source) for source in sources]
    times += [tail.newest for tail in tails if isinstance(tail, RealtimeTail)]
    return max((time for time in times if time is not None), default=None)
