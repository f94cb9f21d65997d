"""The topic of a Kafka sink, folded by key under read_committed, is the view at its token, whatever happens to either."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.serving.connection import PublishedView
from tandem.serving.read.row_filter import RowsWanted, row_filter
from tandem.serving.sinks.changes_to_send import SinkStep, follow, token_of_target
from tandem.serving.sinks.kafka_topic import CompactedTopic, MessageTopic, open_topic
from tandem.serving.sinks.sink_token import Stamp
from tandem.serving.sinks.target import SinkRefused
from tandem.views.kernel.rows import to_rows
from tests.serving.sinks.past import EVERYTHING, MANY, Past, connected, roll_back
from tests.serving.two_releases import applied, build, edited, promote
from tests.serving.world import World, hit
from tests.stack import add_partitions, consumed, delete_topic, new_topic

pytestmark = pytest.mark.broker

CHANGES = RowsWanted(output="changes")


def opened(broker: kafka.BrokerConnection, name: str) -> CompactedTopic:
    target = open_topic(broker, Settings(), name, "update")
    assert isinstance(target, CompactedTopic)
    return target


def sink(
    broker: kafka.BrokerConnection, world: World, name: str, wanted: RowsWanted = EVERYTHING, view: str = "per_page"
) -> list[SinkStep]:
    """Follow once, as a process of its own; then the topic is the query."""
    published, target = connected(world, view), opened(broker, name)
    steps = list(follow(published, target, wanted))
    check(broker, published, target, wanted)
    return steps


def check(broker: kafka.BrokerConnection, published: PublishedView, target: CompactedTopic, wanted: RowsWanted) -> None:
    """The topic, folded by key as any consumer does, is the query at its token."""
    now = published.now()
    rows = to_rows(now.view, row_filter(now.view, wanted).rows(now.scan().table))
    expected = [{name: value for name, value in row.items() if name != "window_state"} for row in rows]
    assert sorted(map(str, folded(broker, target).values())) == sorted(map(str, expected))
    token = token_of_target(target)
    assert token is not None
    assert list(published.changes(token, where=wanted.where)) == []


def folded(broker: kafka.BrokerConnection, target: CompactedTopic) -> dict[bytes, Any]:
    """The rows of a topic by key."""
    newest: dict[bytes, Any] = {}
    for record in committed(broker, target):
        newest[record.key] = record.value
    return {key: json.loads(value) for key, value in newest.items() if value is not None}


def committed(broker: kafka.BrokerConnection, target: CompactedTopic | MessageTopic) -> list[Any]:
    """All records of a topic that a consumer reads after the newest transaction."""
    stored = target.appender.newest()
    assert stored is not None
    # The marker that ends a transaction is in the log a moment after the client knows that it ended.
    while any(kafka.ends(broker, [target.topic])[place] < end for place, end in stored.ends.items()):
        time.sleep(0.01)
    return consumed(broker, target.topic)


def write_stray(broker: kafka.BrokerConnection, name: str, key: bytes, value: bytes | None) -> None:
    """Another program writes a record."""
    with kafka.Sender(broker.address) as sender:
        sender.send(name, value, key)


def test_a_topic_follows_any_order_of_what_happens(broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    chance, past = random.Random(3), Past(World(tmp_path))
    world = past.world
    strays = [b"{}", b"\xff", b'{"page":"/a","window_start":"2026-11-01T12:00:00Z"}', b'{"page": null}']
    for _ in range(12):
        past.happen(chance)
        if chance.random() < 0.3 and kafka.describe(broker, ["all"]):
            write_stray(broker, "all", chance.choice(strays), chance.choice((None, b"{}", b"no", b'{"page":1,"n":2}')))
        if chance.random() < 0.7:
            sink(broker, world, "all", chance.choice((EVERYTHING, MANY)))
    sink(broker, world, "all")


def test_only_what_changed_is_sent_and_what_is_gone_is_a_tombstone(broker: kafka.BrokerConnection, world: World) -> None:
    few = RowsWanted(where="n < 3")
    (first,) = sink(broker, world, "few", few)
    assert (first.rows, first.gone, first.compared) == (2, 0, True)
    world.append(0, hit("/a", 1))
    world.trigger()
    (second,) = sink(broker, world, "few", few)
    assert (second.rows, second.gone, second.compared) == (0, 1, False)
    assert sink(broker, world, "few", few) == []
    topic = kafka.topic(broker, "few")
    records = consumed(broker, topic)
    assert kafka.configurations(broker, ["few"])["few"]["cleanup.policy"] == "compact"
    assert sorted((json.loads(record.key)["page"] or "", record.value is None) for record in records) == [
        ("", False), ("/a", False), ("/a", True),
    ]  # fmt: skip
    assert {tuple(record.headers) for record in records} == {(("tandem.publication", b"1"),)}


def test_a_promote_to_other_columns_and_its_rollback_are_one_transaction_each(
    broker: kafka.BrokerConnection, world: World
) -> None:
    world.recompute(world.end)
    sink(broker, world, "promoted")
    ready = applied(world, edited("a measure renamed"))
    build(ready, ready.end)
    promote(ready)
    for publish, column in ((None, "m"), (roll_back, "bytes")):
        if publish is not None:
            publish(world)
        (step,) = sink(broker, world, "promoted")
        assert step.compared
        target = opened(broker, "promoted")
        assert all(column in row for row in folded(broker, target).values())
    assert len({dict(record.headers)["tandem.publication"] for record in consumed(broker, target.topic)}) == 3


def test_a_later_process_fences_the_earlier_and_a_lost_token_costs_a_comparison(
    broker: kafka.BrokerConnection, world: World
) -> None:
    sink(broker, world, "twice")
    earlier, later = opened(broker, "twice"), opened(broker, "twice")
    empty = earlier.convert(connected(world, "per_page").now().scan().table.slice(0, 0).select(["page", "window_start"]))
    with pytest.raises(kafka.ProducerFenced, match="another process appends to topic 'twice'"):
        earlier.write(empty, empty, Stamp("stale", 0))
    assert later.token() is not None
    broker.admin.delete_groups(["tandem.sink.twice"])
    assert later.token() is None
    (step,) = sink(broker, world, "twice")
    assert (step.rows, step.gone, step.compared) == (0, 0, True)


def test_a_topic_that_cannot_hold_the_rows_is_refused(broker: kafka.BrokerConnection, world: World) -> None:
    topic = new_topic(broker)
    with pytest.raises(SinkRefused, match="=delete, and output update needs compact"):
        opened(broker, topic.name)
    sink(broker, world, "grown")
    add_partitions(broker, kafka.topic(broker, "grown"), 7)
    with pytest.raises(SinkRefused, match="as after partitions were added; delete the topic"):
        sink(broker, world, "grown")


def test_a_running_sink_keeps_each_key_in_its_partition(broker: kafka.BrokerConnection, world: World) -> None:
    for name, wanted in (("widened", EVERYTHING), ("widened-log", CHANGES)):
        published, target = connected(world, "per_page"), open_topic(broker, Settings(), name, wanted.output)
        (first,) = follow(published, target, wanted)
        add_partitions(broker, target.topic, target.topic.partitions + 7)
        wait_for_partitions(target)
        for number in range(3):
            world.append(0, hit("/a", number), hit(None, 1))
            world.trigger()
            list(follow(connected(world, "per_page"), target, wanted))
        places = {(record.key, record.partition) for record in consumed(broker, kafka.topic(broker, name)) if record.key}
        assert len(places) == first.rows == 2


class RunningTopic(CompactedTopic):
    """The topic of a process that goes on: it has read the token when it began."""

    text: str | None = None

    def token(self) -> str | None:
        return self.text

    newest = token

    def write(self, rows: pa.Table, gone: pa.Table, stamp: Stamp) -> None:
        super().write(rows, gone, stamp)
        self.text = stamp.text


def test_a_topic_that_is_created_again_under_a_running_sink_gets_all_rows(broker: kafka.BrokerConnection, world: World) -> None:
    sink(broker, world, "again")
    target = RunningTopic(*vars(opened(broker, "again")).values())
    target.text = CompactedTopic.token(target)
    for number in range(5):
        if number == 4:
            delete_topic(broker, "again")
            kafka.create(broker, ["again"], Settings(), compacted=True)
        world.append(0, hit("/a", number))
        world.trigger()
        published = connected(world, "per_page")
        if number < 4:
            assert len(list(follow(published, target, EVERYTHING))) == 1
    with pytest.raises(kafka.NotSent, match="topic 'again' has lost records, or was created again"):
        list(follow(published, target, EVERYTHING))
    (step,) = sink(broker, world, "again")
    assert (step.rows, step.compared) == (2, True)


def wait_for_partitions(target: CompactedTopic | MessageTopic) -> None:
    """Wait until the sink's producer knows of more partitions, as it does after some minutes."""
    while len(target.appender._producer.list_topics(target.topic.name, timeout=60).topics[target.topic.name].partitions) < 8:
        time.sleep(0.1)


def test_a_token_that_the_partitions_cannot_store_is_refused(broker: kafka.BrokerConnection) -> None:
    text = "".join(random.Random(1).choices("0123456789abcdef", k=30_000))
    few, enough = new_topic(broker, partitions=1), new_topic(broker, partitions=8)
    appender = kafka.ExactlyOnceAppender(broker.address, few, few.name, {})
    with pytest.raises(kafka.NotSent, match="has 1 partitions, and the token needs"):
        appender.append([], text)
    for stored in (text, "short"):
        appender = kafka.ExactlyOnceAppender(broker.address, enough, enough.name, {})
        appender.append([], stored)
        assert getattr(appender.newest(), "text", None) == stored


def test_a_transaction_that_fails_leaves_records_and_token(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker, partitions=1)
    appender = kafka.ExactlyOnceAppender(broker.address, topic, topic.name, {})
    appender.append([kafka.Record(0, b"k", b"first")], "one")
    with pytest.raises(kafka.NotSent, match="did not accept a record"):
        appender.append([kafka.Record(0, b"k", b"second"), kafka.Record(0, b"k", b"x" * 2_000_000)], "two")
    appender = kafka.ExactlyOnceAppender(broker.address, topic, topic.name, kafka.ends(broker, [topic], committed=False))
    stored = appender.newest()
    assert stored is not None
    assert stored.text == "one"
    assert [record.value for record in consumed(broker, topic)] == [b"first"]
