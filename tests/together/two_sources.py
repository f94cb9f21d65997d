"""A project with a view over two sources, whose logs, micro-batches and batch versions a test plays, and its model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.publish import adoption
from tandem.ledger.publish.batch_parts import BatchPart
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime_writer import Writer
from tandem.views.arrow.arrays import to_ipc
from tandem.views.kernel.kernel import decode, partial, prepare
from tandem.views.project import project
from tandem.views.source import watermark
from tandem.views.source.watermark import maxima_of
from tests.serving.world import APPENDED, NOON
from tests.together import model
from tests.together.model import Chain, Row, ViewModel
from tests.views.logged import records

TWO_TOPICS = """
from datetime import datetime, timedelta

from tandem import (
    Event, Source, View, all_time, approx_count_distinct, by_field, collect_set, count, derived, maximum, rollup, total, tumbling,
)


class Seen(Event):
    at: datetime
    ad: str | None
    cost: int


class Click(Event):
    at: datetime
    ad: str | None
    user: str


seen = Source(topic="seen", event=Seen, event_time="at", lateness=timedelta(minutes=30), clock_skew=timedelta.max)
clicks = Source(topic="clicks", event=Click, event_time="at", clock_skew=timedelta.max)
hourly = View(
    source=(seen, clicks),
    keys={"ad": "ad"},
    window=tumbling(hours=1),
    measures={
        "shown": count(of=seen), "clicked": count(of=clicks), "cost": total("cost", of=seen), "dearest": maximum("cost", of=seen),
        "users": collect_set("user", of=clicks), "events": count(), "rate": derived("clicked / shown"),
    },
)
ever = rollup(hourly, keys=(), window=all_time(), measures=("shown", "clicked", "rate", "users"))
plain = View(source=seen, measures={"n": count()})

SOURCES = (seen, clicks)
VIEWS = (hourly, ever, plain)
"""
ONE_TOPIC = (
    TWO_TOPICS.replace('topic="clicks"', 'topic="seen"')
    .replace("event=Seen,", 'event=Seen, record_filter=by_field("kind", "seen"),')
    .replace("event=Click,", 'event=Click, record_filter=by_field("kind", "click"),')
)
SOURCES = ("seen", "clicks")
VIEWS = ("hourly", "ever")


def event(kind: str, ad: str | None, minute: int, of: Any) -> bytes:
    """A record: an advertisement was seen at a cost, or clicked by a user, so many minutes after noon."""
    at = (NOON + timedelta(minutes=minute)).isoformat()
    return json.dumps({"kind": kind, "at": at, "ad": ad, "cost" if kind == "seen" else "user": of}).encode()


@dataclass
class Side:
    """One source: where it stands."""

    writer: Writer
    cut: Position = LOG_START
    ends: list[Position] = field(default_factory=list)
    maxima: watermark.Maxima = field(default_factory=dict)
    watermark: int | None = None
    versions: int = 0
    parts: dict[str, tuple[BatchPart, ...]] = field(default_factory=dict)
    hot: Position | None = None
    """Where its hot commits end, if there are some."""


@dataclass
class TwoSources:
    """The project, with the logs of both sources in memory: values of partition 0 of each topic."""

    folder: Path
    definitions: str = TWO_TOPICS

    def __post_init__(self) -> None:
        (self.folder / "tandem.toml").touch()
        (self.folder / "definitions.py").write_text(self.definitions)
        self.project = project.load(self.folder)
        self.tables = Tables.of(Settings(state=str(self.folder / ".tandem")))
        self.live = adoption.live(self.tables, lambda: self.project, by="test", at=NOON)
        self.sides = {name: Side(Writer.claim(self.tables, 1, name, by="test", at=NOON)) for name in SOURCES}
        self.logs: dict[str, list[bytes]] = {self.topic(name): [] for name in SOURCES}
        self.clock = NOON

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / ".tandem"

    def topic(self, source: str) -> str:
        """The id of a source's topic."""
        return f"T-{self.project.sources[source].topics[0]}"

    def end(self, source: str) -> Position:
        """The end of a source's log."""
        topic = self.topic(source)
        return Position.of({(topic, 0): len(self.logs[topic])})

    def append(self, source: str, *values: bytes) -> None:
        """Records at the end of a source's topic."""
        self.logs[self.topic(source)] += values

    def commit(self, source: str) -> Commit:
        """One micro-batch up to the end of the log."""
        side, end = self.sides[source], self.end(source)
        commit = self.fold(source, side.writer.end, end)
        side.maxima = watermark.newest([side.maxima, commit.maxima])
        side.watermark = watermark.later(side.watermark, watermark.watermark(side.maxima, self.project.sources[source].idle))
        commit = replace(commit, epoch=side.writer.epoch, watermark=side.watermark)
        side.writer.append(commit)
        side.ends.append(end)
        return commit

    def fold(self, source: str, start: Position, end: Position, epoch: int = 1) -> Commit:
        """The commit of a range."""
        of, topic = self.project.sources[source], self.topic(source)
        first, to = start.get((topic, 0), 0), end.get((topic, 0), 0)
        read = records(self.logs[topic][first:to], topic_id=topic, partition=0, first=first, since=APPENDED)
        decoded = decode(of, read)
        prepared = prepare(of, decoded.events, (topic,))
        partials = {
            self.live.views[name].fingerprint: partial(view, prepared.events, ranges(start, end), prepared.failed)
            for name, view in self.project.views.items()
            if view.source.name == source
        }
        self.clock += timedelta(seconds=1)
        return Commit(
            start,
            end,
            epoch,
            "fold",
            at=self.clock,
            by="test",
            counts=Counts(events=decoded.events.num_rows),
            newest=max(decoded.events["_append_time"].to_pylist(), default=None),
            maxima=maxima_of(of, decoded.events),
            partials={mark: to_ipc(each.states) for mark, each in partials.items()},
            rejected={mark: each.rejected for mark, each in partials.items() if each.rejected},
        )

    def recompute(self, source: str, cut: Position, *, whole: bool = False) -> Publication:
        """Publish what lies from the source's cut to another one as one more part of its views; or all below it as their base."""
        side = self.sides[source]
        side.versions += 1
        folded = self.fold(source, LOG_START if whole else side.cut, cut)
        names = [name for name, view in self.project.views.items() if view.source.name == source]
        for name in names:
            mark = self.live.views[name].fingerprint
            states = pa.ipc.open_stream(folded.partials[mark]).read_all()
            rows = states.append_column("batch_version", pa.array([side.versions] * len(states), pa.int64()))
            write_deltalake(self.tables.view(name, mark), rows, mode="append", partition_by=["batch_version"])
            before = () if whole else side.parts.get(name, ())
            side.parts[name] = (*before, BatchPart(side.versions, len(states), cut))
        side.cut = cut
        below = self.fold(source, LOG_START, cut)
        reached = watermark.watermark(below.maxima, self.project.sources[source].idle)

        def derive(parent: Publication | None) -> Publication:
            assert parent is not None
            return replace(
                parent,
                kind="recompute",
                cuts={**parent.cuts, source: cut},
                views={
                    name: replace(view, parts=side.parts[name]) if name in names else view for name, view in parent.views.items()
                },
                counts={**parent.counts, source: below.counts},
                newest={**parent.newest, **({source: below.newest} if below.newest else {})},
                maxima={**parent.maxima, source: below.maxima},
                watermarks={**parent.watermarks, **({} if reached is None else {source: reached})},
            )

        live = Publications(self.tables).publish(derive)
        assert live is not None
        return live

    def chain(self, source: str) -> Chain:
        """The model's chain of a source, up to its last commit, hot ones among them."""
        side, topic = self.sides[source], self.topic(source)
        kind = "seen" if source == "seen" else "click"
        log = [
            {**value, "at": datetime.fromisoformat(value["at"]), "_offset": offset, "mine": value["kind"] == kind}
            for offset, value in enumerate(map(json.loads, self.logs[topic]))
        ]
        later = [end for end in (*side.ends, *([] if side.hot is None else [side.hot])) if side.cut.at_or_below(end)]
        return Chain(
            {(topic, 0): log},
            side.cut,
            [side.cut, *later],
            # Records of the other source, in the same topic, are not this one's.
            identity=None,
            lateness=self.project.sources[source].lateness,
        )


MEASURES: Mapping[str, Any] = {
    "shown": lambda rows: sum(row["kind"] == "seen" for row in rows),
    "clicked": lambda rows: sum(row["kind"] == "click" for row in rows),
    "cost": lambda rows: sum(row["cost"] for row in rows if "cost" in row) if any("cost" in row for row in rows) else None,
    "dearest": lambda rows: max((row["cost"] for row in rows if "cost" in row), default=None),
    "users": lambda rows: sorted({row["user"] for row in rows if "user" in row}),
    "events": len,
    "rate": lambda rows: MEASURES["clicked"](rows) / MEASURES["shown"](rows) if MEASURES["shown"](rows) else None,
}
PARENT = ViewModel(
    keys={"ad": lambda row: row["ad"]},
    slices=model.tumbling(timedelta(hours=1)),
    measures=MEASURES,
    where=lambda row: row["mine"],
)
MODELS: Mapping[str, model.Model] = {
    "hourly": PARENT,
    "ever": model.RollupModel(PARENT, (), model.all_time, ("shown", "clicked", "rate", "users")),
}


def rows_of_model(world: TwoSources, view: str, layer: model.Layer = "merged") -> dict[Any, Row]:
    """The rows of the model."""
    chains = [own_events(world.chain(name)) for name in SOURCES]
    return model.answer(MODELS[view], *chains, layer=layer)


def own_events(chain: Chain) -> Chain:
    """A chain whose watermark is that of its own events."""
    return _OwnEvents(**vars(chain))


@dataclass(frozen=True)
class _OwnEvents(Chain):
    def watermark(self, records: Any) -> datetime | None:
        return super().watermark(record for record in records if record["mine"])
