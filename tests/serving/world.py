"""A project whose layers the test plays: a log, micro-batches and batch versions, through the kernel and the ledger alone."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, wraps
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tandem.batch.fold.fold_job import VERSION
from tandem.batch.fold.write_states import FILE_ROWS, write_states
from tandem.batch.runtime import delta_commits
from tandem.infra.settings import Settings
from tandem.ledger import cut_decision
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.log.archive_runs import APP_ID, ArchiveLedger
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.publish import adoption
from tandem.ledger.publish.batch_parts import BatchPart, BatchView
from tandem.ledger.publish.diffs import ReleaseDiff, ReleaseDiffs
from tandem.ledger.publish.label_counts import labels_below
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime_writer import Writer
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.kernel.kernel import after_final, ahead, decode, merge_states, partial, prepare
from tandem.views.project import project
from tandem.views.source import watermark
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.watermark import Maxima, maxima_of
from tandem.views.view import View, state_schema
from tests.views.logged import records

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
APPENDED = NOON - timedelta(minutes=10)
SOURCE = "hits"
TOPIC_ID = "T"
ONE_TOPIC = ((TOPIC_ID, 0), (TOPIC_ID, 1))
TWO_TOPICS = ((TOPIC_ID, 0), ("S", 0))

DEFINITIONS = """
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from tandem import Event, Scale, Source, View, count, approx_count_distinct, maximum, mean, total, tumbling


class Hit(Event):
    moment: datetime
    page: str | None
    bytes: int
    price: Annotated[Decimal, Scale(2)]


hits = Source(topic="hits", event=Hit, event_time="moment")

per_page = View(
    source=hits,
    keys={"page": "page"},
    window=tumbling(hours=1),
    measures={"n": count(), "bytes": total("bytes"), "largest": maximum("bytes"), "price": total("price"), "mean": mean("bytes")},
)
ever = View(source=hits, where="bytes > 0", measures={
    "n": count(), "bytes": total("bytes"), "pages": approx_count_distinct("page")})
inverse = View(source=hits, keys={"odd": "bytes % 2 = 1"}, measures={"n": count(), "most": maximum("1000 // bytes")})

SOURCES = (hits,)
VIEWS = (per_page, ever, inverse)
"""
CHANGED = {
    "status": "changed", "matched": 10, "changed": 2, "only_old": 0, "only_new": 0, "comparable": True,
    "measures": {"hits": {"differ": 2, "largest": 1.0, "max_error": 0.1, "mean_error": 0.01, "examples": []}},
}  # fmt: skip


Made = Callable[[Path], "World"]


def copied(make: Made) -> Made:
    """Makes the world once in this process, and copies it into each folder: every commit to a table costs milliseconds."""
    kept = TemporaryDirectory(prefix="tandem-world-", ignore_cleanup_errors=True)
    first = cache(lambda: make(Path(kept.name)))
    return wraps(make)(lambda folder: first().moved(folder))


@copied
def forty_hits(folder: Path) -> "World":
    """Forty events and a malformed record; the first thirty are in a batch version and, with the malformed one, archived."""
    made = World(folder)
    made.append(0, *(hit(f"/{n:02}", n) for n in range(30)), b"{broken \x1b[31m\xff")
    made.trigger()
    made.recompute(position(31))
    made.file_in_archive()
    made.append(1, *(hit("/later", n) for n in range(1, 11)))
    made.trigger()
    return made


@copied
def one_ready(folder: Path) -> "World":
    """A batch below 20 of 30 events, and release 2 of the same meaning, ready from 20 on, 10 offsets behind."""
    made = World(folder)
    made.append(0, *(hit(f"/{n:02}", n) for n in range(30)))
    made.trigger(position(20))
    made.recompute(position(20))
    made.trigger(position(30))
    old = Releases(made.tables).load(1)
    files = {**old.files, "tandem.toml": b"# changed"}
    release = Releases(made.tables).store(files, sources=old.sources, views=old.views, by="test", at=NOON, revision="abc")
    live = Publications(made.tables).latest()
    assert live is not None
    cut_decision.begin(made.tables, release.number, SOURCE, position(20), by="test", at=NOON)
    StandingReleases(made.tables).record("built", replace(live, release=release.number, kind="apply", at=NOON))
    ReleaseDiffs(made.tables).record(ReleaseDiff(NOON, 2, 1, {"per_page": CHANGED, "ever": {"status": "unchanged"}}))
    return made


@copied
def nine_hits(folder: Path) -> "World":
    """Nine events in three commits: [0, 3), [3, 6), [6, 9)."""
    made = World(folder)
    made.append(0, *(hit("/", n) for n in range(1, 10)))
    for end in (3, 6, 9):
        made.trigger(position(end))
    return made


def unusual_pages(folder: Path, definitions: str) -> "World":
    """Hits of pages whose names need quoting, are empty or NULL, in three micro-batches; the first five hits are in batch."""
    world = World(folder, definitions=definitions)
    for part in range(3):
        world.append(0, *(hit(page, part * 7 + n) for n, page in enumerate(("/a", "é &=", "", None, "/a"))))
        world.trigger()
    world.recompute(position(5))
    return world


def hit(page: str | None, size: int, *, minute: int = 0, price: str = "0.10") -> bytes:
    """One event's bytes; minutes count from noon."""
    moment = NOON + timedelta(minutes=minute)
    return json.dumps({"moment": moment.isoformat(), "page": page, "bytes": size, "price": price}).encode()


@dataclass(frozen=True)
class Folded:
    """The content of a commit."""

    counts: Counts
    newest: datetime | None
    rejected: dict[str, Mapping[str, int]]
    partials: dict[str, bytes]
    maxima: Maxima
    after_final: dict[str, int]


@dataclass
class World:
    """A project's folder and its state, with the log of a source in memory: values per partition."""

    folder: Path
    log: dict[int, list[bytes]] = field(default_factory=lambda: {0: [], 1: []})
    definitions: str = DEFINITIONS
    places: tuple[Partition, ...] = ONE_TOPIC
    """Which partition of which topic each of the log's is."""
    clock: datetime = NOON
    """When what happens next does."""
    appended: datetime = APPENDED
    """When the log received the first record of each partition; the others came a second apart."""

    source: str = SOURCE
    """The name of the source that has the log."""

    file_rows: int = FILE_ROWS
    """About the states of a file of a batch version; a row group has one less."""

    def __post_init__(self) -> None:
        (self.folder / "tandem.toml").touch()
        (self.folder / "definitions.py").write_text(self.definitions)
        self.project = project.load(self.folder)
        self.tables = Tables.of(Settings(state=str(self.state)))
        self.live = adoption.live(self.tables, lambda: self.project, by="test", at=NOON)
        self.writer = Writer.claim(self.tables, 1, self.source, by="test", at=NOON)
        self._version = 0
        self.maxima: Maxima = {}
        self.watermark: int | None = None

    def beside(self, source: str) -> "World":
        """The log and the micro-batches of another source of the project, in the same state."""
        other = replace(self, log={partition: [] for partition in self.log}, source=source)
        other.live, other.project, other.tables = self.live, self.project, self.tables
        return other

    @property
    def views(self) -> dict[str, View]:
        """The source's views by name, but for rollups."""
        return {name: view for name, view in self.project.views.items() if view.source.name == self.source}

    def append(self, partition: int, *values: bytes) -> None:
        """Records at a partition's end."""
        self.log[partition] += values

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / ".tandem"

    @property
    def end(self) -> Position:
        """The log's end."""
        return Position.of({self.places[partition]: len(values) for partition, values in self.log.items()})

    def trigger(self, to: Position | None = None) -> Commit:
        """One micro-batch from the realtime table's end to a position, the log's end if none is given."""
        start, end = self.writer.end, self.end if to is None else to
        folded = self.fold(start, end, self.watermark)
        self.maxima = watermark.newest([self.maxima, folded.maxima])
        reached = watermark.watermark(self.maxima, self.project.sources[self.source].idle)
        self.watermark = watermark.later(self.watermark, reached)
        commit = Commit(start, end, self.writer.epoch, "fold", at=NOON, by="test", watermark=self.watermark, **vars(folded))
        self.writer.append(commit)
        return commit

    def fold(self, start: Position, end: Position, reached: int | None = None) -> Folded:
        """What the kernel makes of `[start, end)`, by view fingerprint; `reached` is the watermark at its start."""
        source = self.project.sources[self.source]
        decoded = decode(source, self.records(start, end))
        prepared = prepare(source, decoded.events, tuple(dict.fromkeys(topic for topic, _ in self.places)))
        partials = {
            self.live.views[name].fingerprint: partial(view, prepared.events, ranges(start, end), prepared.failed)
            for name, view in self.views.items()
        }
        reasons = decoded.rejects["reason"].to_pylist()
        return Folded(
            counts=Counts(
                events=decoded.events.num_rows,
                quarantined={reason: reasons.count(reason) for reason in set(reasons)},
                ahead=int(ahead(source, decoded.events).sum()),
            ),
            newest=max(decoded.events["_append_time"].to_pylist(), default=None),
            rejected={fingerprint: one.rejected for fingerprint, one in partials.items() if one.rejected},
            partials={fingerprint: to_ipc(one.states) for fingerprint, one in partials.items()},
            maxima=maxima_of(source, decoded.events),
            after_final={
                self.live.views[name].fingerprint: count
                for name, view in self.views.items()
                if (count := after_final(view, prepared.events, reached))
            },
        )

    def recompute(self, cut: Position, *, files: int = 1) -> Publication:
        """Fold everything below the cut into a batch version of every view, and publish it."""
        published = Publications(self.tables).publish(self.recomputed(cut, files=files))
        assert published is not None
        return published

    def recomputed(self, cut: Position, *, files: int = 1) -> Callable[[Publication | None], Publication]:
        """Fold everything below the cut into a batch version of every view; what a state of the release becomes by them."""
        self._version += 1
        rows = {name: self.write_version(name, self._version, cut, files=files) for name in self.views}
        parts = {name: BatchPart(self._version, rows[name], cut) for name in rows}
        folded = self.fold(LOG_START, cut)

        def derive(parent: Publication | None) -> Publication:
            assert parent is not None
            labels = labels_below(
                self.tables,
                parent,
                self.source,
                cut,
                views={name: parent.views[name].fingerprint for name in rows},
                maxima=folded.maxima,
                idle=self.project.sources[self.source].idle,
            )
            return Publication(
                0,
                0,
                self.clock,
                "test",
                "recompute",
                parent.release,
                {**parent.cuts, self.source: cut},
                {**parent.views, **{name: BatchView(parent.views[name].fingerprint, (parts[name],)) for name in rows}},
                counts={**parent.counts, self.source: folded.counts},
                rejected={
                    **parent.rejected,
                    **{name: dict(folded.rejected.get(parent.views[name].fingerprint, {})) for name in rows},
                },
                newest={**parent.newest, **({self.source: folded.newest} if folded.newest else {})},
                maxima={**parent.maxima, self.source: folded.maxima},
                watermarks={**parent.watermarks, **({} if labels.watermark is None else {self.source: labels.watermark})},
                after_final={**parent.after_final, **labels.after_final},
            )

        return derive

    def file_in_archive(self, start: Position = LOG_START) -> None:
        """What an archive run leaves behind for all of the log from where the run before it ended."""
        source = self.project.sources[self.source]
        decoder = decoder_fingerprint(source)
        ledger = ArchiveLedger(self.tables, self.source)
        run = ledger.intend(start=start, end=self.end, by="test", at=NOON)
        filed = self.records(start, self.end)
        decoded = decode(source, filed)
        written = CommitProperties(app_transactions=[Transaction(APP_ID, run.number)])
        write_deltalake(self.tables.archive(self.source), filed, mode="append", commit_properties=written)
        write_deltalake(self.tables.events(self.source, decoder), decoded.events, mode="append", commit_properties=written)
        write_deltalake(self.tables.quarantine(self.source, decoder), decoded.rejects, mode="append", commit_properties=written)
        reasons = decoded.rejects["reason"].to_pylist()
        counts = Counts(events=decoded.events.num_rows, quarantined={reason: reasons.count(reason) for reason in set(reasons)})
        ledger.check(run.number, at=NOON)
        ledger.finish(decoder, run.number, counts=counts, newest=NOON, at=NOON)

    def moved(self, folder: Path) -> "World":
        """A copy of the project and its state in another folder, which has none; what becomes of one is nothing to the other."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        other = copy(self)
        other.folder, other.tables = folder, Tables.of(Settings(state=str(folder / ".tandem")))
        other.log = {partition: [*values] for partition, values in self.log.items()}
        other.writer = copy(self.writer)
        other.writer._handle = DeltaTable(other.tables.realtime(1, self.source))
        return other

    def write_version(self, view: str, version: int, cut: Position, *, files: int = 1) -> int:
        """Append a batch version of one view, as the fold does, or in several files as before; its number of rows."""
        address, of = self.tables.view(view, self.live.views[view].fingerprint), self.project.views[view]
        states = from_ipc(self.fold(LOG_START, cut).partials[self.live.views[view].fingerprint])
        if files == 1:
            handle = delta_commits.make_table(
                self.tables, address, state_schema(of).append(pa.field(VERSION, pa.int64())), partition_by=VERSION
            )
            place = Location.of(self.tables, address)
            delta_commits.add_files(
                handle, write_states(place, of, states, version, rows=self.file_rows, group_rows=self.file_rows - 1)
            )
            return len(states)
        rows = states.append_column("batch_version", pa.array([version] * len(states), pa.int64()))
        for n in range(files):
            some = rows.take(pa.array(range(n, len(rows), files), pa.int64()))
            write_deltalake(address, some, mode="append", partition_by=["batch_version"])
        return len(rows)

    def drop_version(self, view: str, version: int) -> None:
        """Take a batch version out of one view's table."""
        DeltaTable(self.tables.view(view, self.live.views[view].fingerprint)).delete(f"batch_version = {version}")

    def records(self, start: Position, end: Position) -> pa.Table:
        """The log's records of a range."""
        pieces = []
        for partition, values in self.log.items():
            topic, number = self.places[partition]
            first, to = start.get((topic, number), 0), end.get((topic, number), 0)
            pieces.append(records(values[first:to], topic_id=topic, partition=number, first=first, since=self.appended))
        return pa.concat_tables(pieces)

    def values(self, start: Position, end: Position) -> list[bytes]:
        """The log's values of a range."""
        return [value.as_py() for value in self.records(start, end)["value"]]

    def compact(self, fanout: int = 2) -> int:
        """Upkeep of the realtime table, as the speed layer does it between triggers."""
        views = {self.live.views[name].fingerprint: view for name, view in self.project.views.items()}

        def merged(fingerprint: str, partials: Sequence[bytes]) -> bytes:
            return to_ipc(merge_states(views[fingerprint], [from_ipc(one) for one in partials]))

        live = Publications(self.tables).latest()
        assert live is not None
        return self.writer.compact(merged, live=live.cut(self.source), at=NOON, fanout=fanout)


def position(*offsets: int) -> Position:
    """The position at these offsets of partitions 0, 1, ..."""
    return Position.of({(TOPIC_ID, partition): offset for partition, offset in enumerate(offsets)})
