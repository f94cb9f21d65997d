"""A layer that restarts, catches up and crosses bridges counts each event once, without a JVM and a broker.

The records that its tasks read come from a topic in memory and from the archive; all else is what runs under Spark.
"""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tandem.batch.archive import write_archive as archiving
from tandem.batch.recompute import recompute as recomputing
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.infra import kafka
from tandem.infra.settings import Settings, SpeedSettings
from tandem.ledger import cut_decision
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import adoption, publications
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release, Releases
from tandem.ledger.realtime.commit_files import spans_of
from tandem.ledger.realtime.tiling import chain
from tandem.speed.source import archive_replay, restore_identities
from tandem.speed.source.follow import Follow, Surroundings, follow
from tandem.speed.source.start_position import OffsetsLost
from tandem.views.errors import TandemError
from tandem.views.project.project import Project, load_files
from tests import one_process
from tests.one_process import MemoryBroker, MemoryTopic, Streaming
from tests.speed.sales import answered, commits, folded, per_minute, project_files, sale, some, total


@dataclass
class Layer:
    """A speed layer of one release, for one source, and the log that it follows."""

    broker: MemoryBroker
    topic: MemoryTopic
    settings: Settings
    said: list[str] = field(default_factory=list)
    stopping: bool = False
    _follow: Follow | None = None
    clock: datetime = field(default_factory=lambda: datetime.now(UTC))
    source: str = "sales"

    @property
    def tables(self) -> Tables:
        return Tables.of(self.settings)

    @property
    def files(self) -> dict[str, bytes]:
        return project_files(self.topic.topic.name)

    @property
    def project(self) -> Project:
        return load_files(self.files)

    @property
    def end(self) -> Position:
        return self.topic.end

    @property
    def follow(self) -> Follow:
        assert self._follow is not None
        return self._follow

    @property
    def streaming(self) -> Streaming:
        found: Any = self.follow._streaming
        return found

    def now(self) -> datetime:
        self.clock += timedelta(milliseconds=1)
        return self.clock

    def start(self) -> None:
        """A process that claims the table, and catches up."""
        live = adoption.live(self.tables, lambda: self.project, by="test", at=self.now())
        release = Releases(self.tables).load(live.release)
        definitions = load_files(release.files)
        nothing = SimpleNamespace(follows=lambda *_: None, heart=SimpleNamespace(looked=lambda *_: None))
        around = Surroundings(
            spark=None,
            settings=self.settings,
            tables=self.tables,
            connection=kafka.connect(one_process.ADDRESS),
            checkpoints=self.settings.folder / "checkpoints",
            by="test",
            now=self.now,
            warn=self.said.append,
            reporter=nothing,  # type: ignore[arg-type]
            stopping=lambda: self.stopping,
            recorder=nothing,  # type: ignore[arg-type]
        )
        views = {name: view for name, view in definitions.views.items() if view.source.name == self.source}
        self._follow = follow(around, release, definitions.sources[self.source], views, live)

    def restart(self) -> None:
        self.follow.stop()
        self.start()

    def drain(self) -> None:
        """Micro-batches until nothing is new; a query that ended is begun again."""
        while not self.streaming.isActive or self.streaming.trigger():
            self.follow.check()

    def archive(self) -> None:
        archiving.run(one_process.run(self.settings, "archive"), lambda: self.project)

    def recompute(self, request: RecomputeRequest | None = None) -> publications.Publication:
        done = recomputing.run(one_process.run(self.settings, "recompute"), lambda: self.project, request or RecomputeRequest())
        self.follow.tail.live = done.publication
        return done.publication

    def bridge(self) -> Position:
        """As a recompute that no speed layer had caught up with; where it ends."""
        cut_decision.bridge(self.tables, 1, "sales", to=self.end, by="test", at=self.now())
        return self.end


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layer:
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    settings = Settings(state=str(tmp_path), speed=SpeedSettings(max_events=25, compact_every=3))
    return Layer(broker, broker.new_topic(partitions=3), settings)


@pytest.mark.each_run("1-40")
@pytest.mark.parametrize(("seed", "at_once"), [(0, 7), (1, 40), (2, 1_000_000)])
def test_each_event_counts_once_whatever_happens_in_between(
    layer: Layer, seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies in any partition, restarts, retention behind the archive, cuts; identities are loaded in pieces or whole."""
    monkeypatch.setattr(restore_identities, "_AT_ONCE", at_once)
    dice, numbers, sold = random.Random(seed), list[int](), 0
    layer.start()
    for step in range(14):
        what = dice.choice(("trigger", "trigger", "restart", "archive", "recompute", "retention"))
        chunk = [dice.randrange(120) for _ in range(dice.randrange(1, 20))]
        for partition in (0, 2):
            layer.topic.append([*some(chunk), b"not a sale"], partition=partition)
        layer.topic.skip(dice.choice((0, 2)))
        numbers, sold = numbers + chunk, sold + 2 * len(chunk)
        if what == "trigger":
            layer.streaming.trigger(dice.random)
        elif what == "restart":
            layer.restart()
        elif what == "retention":
            layer.archive()
            layer.topic.delete_below({n: dice.randrange(len(layer.topic.rows[n]) + 1) for n in (0, 2)})
            layer.restart()
        else:
            layer.archive()
            if what == "recompute" and step > 3:
                layer.drain()
                layer.recompute()
    layer.drain()
    assert answered(layer.settings) == per_minute(numbers)
    assert folded(layer.settings) == layer.end
    layer.archive()
    live = layer.recompute(RecomputeRequest(mode="full"))
    counts = live.counts["sales"]
    assert (counts.events, counts.duplicates) == (len(set(numbers)), sold - len(set(numbers)))
    assert (counts.quarantined, live.repaired) == ({"json": 2 * 14}, {"sales": 0})
    assert answered(layer.settings) == per_minute(numbers)


def test_with_too_little_memory_the_newest_identities_are_loaded_and_the_rest_reported(
    layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of what did not fit count twice until a recompute; each commit says from when on all identities are known."""
    monkeypatch.setattr(restore_identities, "_AT_ONCE", 10)
    monkeypatch.setattr(restore_identities, "BYTES", layer.settings.speed.identities_mb * 1_000_000 // 20)
    layer.start()
    for start in range(0, 50, 10):
        layer.clock += timedelta(seconds=100)
        layer.topic.append(some(range(start, start + 10)), at=layer.clock)
        layer.drain()
    made = [commit.at for commit in commits(layer.settings) if not commit.mark]
    layer.restart()
    evicted = layer.follow.tail.state.dedup_window.evicted
    assert evicted is not None
    # Of what did not fit the newest timestamp is that of the third micro-batch, in seconds, rounded up.
    assert evicted.stamp == ceil((layer.clock - timedelta(seconds=200)).timestamp())
    layer.topic.append(some(range(25, 50)))
    layer.drain()
    known = [commit.identities_since for commit in commits(layer.settings) if not commit.mark]
    assert known[-1] == made[3], "the two newest commits fit, and of older ones nothing is known"
    assert total(layer.settings, "duplicates") == 20
    layer.archive()
    assert layer.recompute().repaired == {"sales": 5}
    assert answered(layer.settings) == per_minute(range(50))


def replayed(layer: Layer, release: Release, live: Publication, into: Tables, *, most: int) -> archive_replay.ReplayedArchive:
    """Replay the archive up to the live cut, in micro-batches of at most `most` offsets."""
    definitions = load_files(release.files)
    return archive_replay.replay(
        None,
        layer.tables,
        release,
        definitions.sources["sales"],
        views=definitions.views,
        live=live,
        into=into,
        end=live.cut("sales"),
        most=most,
        identities_mb=1,
        by="test",
        now=layer.now,
    )


@pytest.mark.parametrize("most", [9, 1000])
def test_a_replay_of_the_archive_counts_what_the_layer_counted(layer: Layer, most: int, tmp_path: Path) -> None:
    """In micro-batches of about as many events as it is told, copies of any of them included."""
    layer.start()
    for start in (0, 20, 10):
        layer.topic.append(some(range(start, start + 25)), partition=start % 3)
        layer.topic.append([*some(range(start, start + 30)), b"{"], partition=1)
        layer.drain()
    layer.archive()
    live = layer.recompute()
    release = Releases(layer.tables).load(live.release)
    into = Tables(str(tmp_path / "replayed"))
    found = replayed(layer, release, live, into, most=most)
    counted = live.counts["sales"]
    assert (found.counts.events, found.counts.duplicates) == (counted.events, counted.duplicates) == (50, 115)
    assert (found.counts.quarantined, [*found.rejected.values()]) == ({"json": 3}, [{}, {}])
    tiled = chain(spans_of(into, live.release, "sales"), LOG_START)
    lengths = [sum(one.end.values()) - sum(one.start.values()) for one in tiled.commits]
    assert (tiled.problem, tiled.end, len(lengths)) == (None, live.cut("sales"), found.batches)
    assert found.batches >= sum(lengths) // most
    assert max(lengths) <= most + 2, "of three partitions, each may be one further"


def test_a_replay_skips_lost_records_and_bounds_events_per_micro_batch(
    layer: Layer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        name: each.replace(b'identity=("id",)', b'identity=("id",), max_events_per_record=3')
        for name, each in layer.files.items()
    }
    monkeypatch.setattr(Layer, "files", files)
    layer.start()
    assert layer.streaming.most == 25 // 3, "records that surely hold no more events than a micro-batch may have"
    for start in (0, 3, 6, 9):
        layer.topic.append([b"[" + b",".join(some(range(start, start + 3))) + b"]"] * 2)
        layer.drain()
        layer.archive()
    release = Releases(layer.tables).load(1)
    into = Tables(str(tmp_path / "replayed"))
    live = layer.recompute()
    found = replayed(layer, release, live, into, most=6)
    assert (found.batches, found.counts.events, found.counts.duplicates) == (4, 12, 12)


def test_the_layer_continues_after_a_bridge_and_knows_its_events(layer: Layer) -> None:
    layer.start()
    layer.topic.append(some(range(10)))
    layer.drain()
    layer.topic.append(some(range(10, 20)))
    end = layer.bridge()
    layer.topic.append(some(range(5, 30)), partition=2)
    layer.drain()
    assert layer.said == [f"source 'sales': another run has bridged the log; continuing from {end}"]
    assert [commit.kind for commit in commits(layer.settings) if not commit.mark] == ["fold", "bridge", "fold"]
    assert (total(layer.settings, "events"), total(layer.settings, "duplicates")) == (20, 15)


def test_partitions_that_are_added_begin_a_query_and_another_topic_ends_it(layer: Layer) -> None:
    layer.start()
    layer.topic.append(some(range(10)))
    layer.drain()
    reached = layer.end
    layer.topic.grow(4)
    layer.topic.append(some(range(10, 15)), partition=3)
    layer.topic.append(some(range(15, 20)))
    layer.streaming.fails(PySparkException("partitions have been added"))
    layer.drain()
    assert layer.said == [f"source 'sales': topic '{layer.topic.topic.name}' now has 4 partitions; continuing from {reached}"]
    assert total(layer.settings, "events") == 20
    layer.topic.again()
    layer.topic.append(some(range(30, 60)))
    layer.topic.append(some(range(60, 80)), partition=3)
    with pytest.raises(LogChanged, match="deleted or created again"):
        layer.drain()
    assert total(layer.settings, "events") == 20


def test_any_other_end_of_a_query_is_raised_in_one_sentence(layer: Layer) -> None:
    layer.start()
    layer.topic.append(some(range(10)))
    layer.streaming.fails(PySparkException("no such class"))
    with pytest.raises(TandemError, match=r"a micro-batch of source 'sales' failed and is not committed.*no such class"):
        layer.follow.check()
    layer.streaming.fails()
    with pytest.raises(TandemError, match="the query stopped unexpectedly"):
        layer.follow.check()


def test_a_loss_is_not_mistaken_for_an_absent_broker(layer: Layer) -> None:
    layer.start()
    layer.topic.append(some(range(10)))
    layer.streaming.trigger()
    layer.topic.append(some(range(10, 30)))
    layer.topic.delete_below({0: 15})
    layer.streaming.fails(PySparkException("some data may have been lost"))
    with pytest.raises(OffsetsLost, match="offsets 10 to 14 of partition 0"):
        layer.follow.check()


def test_a_stopping_layer_begins_no_query_and_leaves_no_checkpoints(layer: Layer) -> None:
    layer.topic.append(some(range(60)))
    layer.start()
    first = layer.streaming
    layer.streaming.trigger()
    assert any(layer.follow.checkpoints.iterdir())
    layer.follow.stop()
    assert not first.isActive
    assert not layer.follow.checkpoints.exists()
    layer.archive()
    layer.topic.delete_below({0: 60})
    layer.stopping = True
    layer.start()
    assert layer.follow._streaming is None
    assert total(layer.settings, "events") == 25, "nor does it catch up further"
    layer.stopping = False
    layer.start()
    assert total(layer.settings, "events") == 60
    assert {sum(one.end.values()) - sum(one.start.values()) for one in commits(layer.settings) if not one.mark} <= {25, 10, 35}


def test_a_restarted_layer_labels_as_one_that_continued(layer: Layer) -> None:
    """Late is an event behind those that another process counted, and no watermark moves back."""
    layer.start()
    layer.topic.append([sale(1, seconds=7200)], partition=0)
    layer.drain()
    before = commits(layer.settings)[-1]
    layer.restart()
    layer.topic.append([sale(2)], partition=0)
    layer.topic.append([sale(3, seconds=60)], partition=2)
    layer.drain()
    after = commits(layer.settings)[-1]
    assert (after.counts.events, after.counts.late) == (2, 1)
    assert after.watermark == before.watermark
    assert after.watermark is not None


def test_the_log_is_caught_up_as_of_when_its_end_was_polled(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker may take long to answer, and receive more meanwhile."""
    layer.start()
    polled, pause = kafka.ends, timedelta(seconds=10)

    def slow(*arguments: Any) -> Any:
        found = polled(*arguments)
        layer.clock += pause
        return found

    monkeypatch.setattr(kafka, "ends", slow)
    layer.topic.append([sale(1)])
    layer.drain()
    commit = commits(layer.settings)[-1]
    assert commit.at is not None
    assert commit.caught_up is not None
    assert commit.at - commit.caught_up >= pause
