"""A source whose topics match a pattern counts each topic from its beginning, whenever it joins or goes."""

import json
import random
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tandem.batch.recompute.plan import RecomputeRequest
from tandem.infra import kafka
from tandem.infra.kafka.source_topics import topics_of
from tandem.infra.settings import Settings, SpeedSettings
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.log.positions import LOG_START, Position
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.status.sources import LogEnd
from tandem.serving.status.topics import topics_document, topics_sentence
from tandem.speed.hot.follow import HotTailEnded
from tests import one_process
from tests.one_process import MemoryBroker, MemoryTopic
from tests.speed.hot.beside import Beside
from tests.speed.sales import project_files, sale, some, total
from tests.speed.test_in_one_process import Layer

Rows = dict[tuple[str, str], tuple[int, int]]
CONFLICTS = "conflicts"
"""The shop of sales whose copies differ: batch and speed may keep different ones until a recompute."""


@dataclass
class PatternLayer(Layer):
    """A speed layer of a source of all topics whose names match, and every topic that there ever was, in the order of the log."""

    order: list[MemoryTopic] = field(default_factory=list)
    unseen: list[MemoryTopic] = field(default_factory=list)

    @property
    def files(self) -> dict[str, bytes]:
        written = project_files()["definitions.py"].replace(b'topic="sales"', b'topic=pattern(".*sales-.*")')
        return {"definitions.py": written.replace(b"maximum, total", b"maximum, pattern, total"), "tandem.toml": b""}

    @property
    def end(self) -> Position:
        return Position.of({place: end for topic in self.order for place, end in topic.end.items()})

    def join(self, name: str) -> MemoryTopic:
        made = self.broker.new_topic(name)
        self.unseen.append(made)
        return made

    def look(self) -> None:
        """Some part of the platform asks for the topics: those that are new follow in the log, by name."""
        self.order += sorted(self.unseen, key=lambda each: each.topic.name)
        self.unseen.clear()

    def start(self) -> None:
        self.look()
        super().start()

    def archive(self) -> None:
        self.look()
        super().archive()

    def check(self) -> None:
        """What the thread of the source does now and then."""
        self.look()
        self.clock += timedelta(seconds=6)
        self.follow.check()

    def trigger(self, dice: random.Random) -> None:
        """A micro-batch; a query ends that reads a topic which is gone, and another one begins."""
        if {topic.name for topic in self.streaming.query.log.topics} <= self.broker.topics.keys():
            self.streaming.trigger(dice.random)
        else:
            self.streaming.fails(PySparkException("unknown topic"))
            self.look()
            self.follow.check()

    def drain(self) -> None:
        self.check()
        while self.follow._streaming is not None and self.streaming.trigger():
            self.follow.check()

    def oracle(self, position: Position) -> Rows:
        """The first sale of each id below a position, in the order of topics, partitions and offsets."""
        firsts: dict[int, tuple[str, str, int]] = {}
        for topic in self.order:
            for number, records in topic.rows.items():
                for row in records[: position.get((topic.topic.id, number), 0)]:
                    assert row is not None
                    event = json.loads(row["value"])
                    firsts.setdefault(event["id"], (event["at"][:16] + ":00Z", event["shop"], event["amount"]))
        rows: Rows = {}
        for start, shop, amount in firsts.values():
            n, total = rows.get((start, shop), (0, 0))
            rows[start, shop] = (n + 1, total + amount)
        return rows


def answers(layer: PatternLayer) -> tuple[Position, Rows]:
    reader = Reader(layer.tables)
    reader.refresh()
    rows = given(reader.answer("per_minute")).rows()
    position = reader.snapshot().tails["sales"].end
    return position, {(row["window_start"], row["shop"]): (row["n"], row["sum"]) for row in rows}


def without_conflicts(rows: Rows) -> Rows:
    return {key: (n, 0 if key[1] == CONFLICTS else total) for key, (n, total) in rows.items()}


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PatternLayer:
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    settings = Settings(state=str(tmp_path), speed=SpeedSettings(max_events=25, compact_every=3))
    return PatternLayer(broker, broker.new_topic("orders", partitions=1), settings)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_topics_join_and_go_at_any_moment_and_answers_are_those_of_the_log(layer: PatternLayer, seed: int) -> None:
    """With copies across topics, some of which differ: incremental runs count what a full run counts."""
    dice = random.Random(seed)
    layer.topic.append(some(range(500, 510)))
    layer.broker.new_topic("__sales-offsets").append(some(range(600, 610)))
    layer.start()
    for step in range(16):
        if dice.random() < 0.4 or step in (2, 9):
            layer.join(f"{dice.choice('abc')}sales-{step}")
        there = [topic for topic in (*layer.order, *layer.unseen) if topic.topic.name in layer.broker.topics]
        for topic in there:
            values = some([dice.randrange(90) for _ in range(dice.randrange(8))])
            values += [sale(1000 + dice.randrange(9), shop=CONFLICTS, amount=dice.randrange(9)) for _ in range(2)]
            topic.append(values, partition=dice.randrange(2))
        what = dice.choice(("check", "drain", "trigger", "restart", "archive", "recompute", "go"))
        if what == "check":
            layer.check()
        elif what == "trigger" and layer.follow._streaming is not None:
            layer.trigger(dice)
        elif what == "restart":
            layer.restart()
        elif what == "drain":
            layer.drain()
        elif what != "trigger":
            layer.archive()
            if there and what == "go":
                layer.drain()
                del layer.broker.topics[dice.choice(there).topic.name]
            elif what == "recompute":
                layer.drain()
                layer.recompute()
                position, rows = answers(layer)
                assert (position, rows) == (layer.end, layer.oracle(layer.end))
        position, rows = answers(layer)
        assert without_conflicts(rows) == without_conflicts(layer.oracle(position))
    layer.drain()
    layer.archive()
    layer.recompute()
    _, rows = answers(layer)
    assert rows == layer.oracle(layer.end)
    layer.recompute(RecomputeRequest(mode="full"))
    assert answers(layer) == (layer.end, rows)
    assert ArchiveLedger(layer.tables, "sales").generations() == tuple(topic.topic.id for topic in layer.order)


def states(layer: PatternLayer) -> dict[str, str]:
    """The state of each topic, as `status` has it, and the sentence."""
    source = layer.project.sources["sales"]
    document = topics_document(
        ArchiveLedger(layer.tables, "sales").topic_names(),
        source,
        LogEnd(LOG_START, topics=topics_of(kafka.connect(one_process.ADDRESS), source)),
    )
    said = topics_sentence("sales", document)
    assert said is not None
    return {**{topic["name"]: topic["state"] for topic in document["topics"]}, "": said}


def test_a_pattern_without_topics_has_an_empty_log_until_the_first_one_joins(layer: PatternLayer) -> None:
    layer.start()
    layer.drain()
    layer.archive()
    assert states(layer) == {"": "sales: no topic matches pattern '.*sales-.*' yet"}
    layer.join("sales-de").append(some(range(10)))
    assert states(layer) == {"sales-de": "new", "": "sales: of pattern '.*sales-.*' it soon reads sales-de"}
    layer.drain()
    assert total(layer.settings, "events") == 10, "from its beginning"
    assert states(layer) == {"sales-de": "read", "": "sales: of pattern '.*sales-.*' it reads sales-de"}
    assert layer.said == [
        "source 'sales': of the topics of pattern(\".*sales-.*\") there is now sales-de; continuing from the log's start"
    ]


def test_a_topic_that_joins_is_not_looked_for_before_its_time(layer: PatternLayer) -> None:
    """Each look asks the broker for the names of all topics."""
    layer.join("sales-de").append(some(range(10)))
    layer.start()
    layer.join("sales-fr").append(some(range(10, 20)))
    layer.follow.check()
    layer.streaming.trigger()
    assert total(layer.settings, "events") == 10
    layer.drain()
    assert total(layer.settings, "events") == 20


def test_a_deleted_topic_is_named_and_its_archived_records_stay(layer: PatternLayer) -> None:
    layer.join("sales-de").append(some(range(10)))
    layer.join("sales-fr").append(some(range(10, 20)))
    layer.start()
    layer.drain()
    layer.archive()
    del layer.broker.topics["sales-de"]
    layer.drain()
    assert "gone is sales-de" in layer.said[-1]
    sentence = "sales: of pattern '.*sales-.*' it reads sales-fr; it has read, and the broker no longer has sales-de"
    assert states(layer) == {"sales-de": "gone", "sales-fr": "read", "": sentence}
    layer.restart()
    layer.archive()
    layer.recompute(RecomputeRequest(mode="full"))
    assert answers(layer)[1] == layer.oracle(layer.end)
    assert Gaps(layer.tables).of("sales") == []


def test_records_that_went_with_their_topic_before_they_were_archived_are_a_gap(layer: PatternLayer) -> None:
    layer.join("sales-de").append(some(range(10)))
    layer.join("sales-fr").append(some(range(10, 20)))
    layer.start()
    layer.drain()
    del layer.broker.topics["sales-de"]
    layer.drain()
    layer.archive()
    (gap,) = Gaps(layer.tables).of("sales")
    assert {topic for (topic, _), _ in gap.ranges.intervals} == {layer.order[0].topic.id}
    assert gap.ranges.length == 10


@pytest.mark.parametrize("noticed", [True, False])
def test_a_topic_that_is_created_again_needs_a_decision(layer: PatternLayer, *, noticed: bool) -> None:
    """As with a source that names its topics; whether or not its absence was noticed in between."""
    topic = layer.join("sales-de")
    topic.append(some(range(10)))
    layer.start()
    layer.drain()
    layer.archive()
    if noticed:
        del layer.broker.topics["sales-de"]
        layer.drain()
        layer.broker.topics["sales-de"] = topic
    topic.again()
    topic.append(some(range(10, 20)))
    with pytest.raises(LogChanged, match=r"topic 'sales-de' was deleted and created again.*--new-topic"):
        layer.drain()
    with pytest.raises(LogChanged, match="--new-topic"):
        layer.archive()
    assert total(layer.settings, "events") == 10


def test_a_hot_tail_reads_a_topic_once_commits_count_records_of_it(layer: PatternLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    one_process.hot_stands_in(monkeypatch, layer.broker)
    layer.start()
    beside = Beside(layer)
    beside.start()
    german = layer.join("sales-de")
    german.append(some(range(10)))
    beside.step()
    assert beside.position == LOG_START
    layer.drain()
    with pytest.raises(HotTailEnded, match="outside the hot tail"):
        beside.step()
    french = layer.join("sales-fr")
    layer.look()
    beside.start()
    german.append(some(range(10, 20)))
    french.append(some(range(15, 30)))
    beside.step()
    assert beside.position == german.end, "ahead of the commits in the topics that it reads"
    layer.drain()
    with pytest.raises(HotTailEnded, match="outside the hot tail"):
        beside.step()
    beside.start()
    french.append(some(range(30, 40)))
    beside.step()
    assert beside.position == layer.end
    rows = beside.connection.view("per_minute").rows()
    assert {(row["window_start"], row["shop"]): (row["n"], row["sum"]) for row in rows} == layer.oracle(layer.end)
