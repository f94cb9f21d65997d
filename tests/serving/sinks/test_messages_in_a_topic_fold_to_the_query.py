"""The messages of a Kafka sink with output append or changes fold to the query at its token; no row is sent twice or missing."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.serving.read.row_filter import RowsWanted, row_filter
from tandem.serving.sinks.changes_to_send import SinkStep, follow, token_of_target
from tandem.serving.sinks.kafka_topic import MessageTopic, open_topic
from tandem.serving.sinks.target import SinkRefused
from tandem.views.kernel.rows import to_rows
from tests.serving.sinks.past import connected, roll_back
from tests.serving.sinks.test_a_compacted_topic_is_the_view_at_its_token import committed
from tests.serving.two_releases import applied, build, edited, promote
from tests.serving.world import World, hit
from tests.stack import consumed

pytestmark = pytest.mark.broker

APPEND, CHANGES = RowsWanted(output="append"), RowsWanted(output="changes")
Rows = dict[tuple[int, str], Any]


def send(broker: kafka.BrokerConnection, world: World, name: str, wanted: RowsWanted) -> list[SinkStep]:
    """Follow once, as a process of its own; then the messages fold to the query."""
    published, log = connected(world, "per_page"), open_topic(broker, Settings(), name, wanted.output)
    assert isinstance(log, MessageTopic)
    steps = list(follow(published, log, wanted))
    now = published.now()
    final = wanted.output == "append"
    answer = row_filter(now.view, wanted).rows(now.scan().table)
    rows = [row for row in to_rows(now.view, answer) if not final or row["window_state"] == "final"]
    expected = [{column: value for column, value in row.items() if column != "window_state"} for row in rows]
    fold = fold_final if final else fold_changes
    assert sorted(map(str, fold(committed(broker, log)).values())) == sorted(map(str, expected))
    token = token_of_target(log)
    assert list(published.changes(token, where=wanted.where, output=wanted.output)) == []
    return steps


def fold_changes(records: list[Any]) -> Rows:
    """The rows of each partition, as a consumer of Debezium's envelope keeps them."""
    rows: Rows = {}
    for record in records:
        place, change = (record.partition, record.key), json.loads(record.value)
        if change["op"] == "t":
            assert record.key is None
            rows = {other: row for other, row in rows.items() if other[0] != record.partition}
            continue
        assert rows.get(place) == change["before"]
        assert change["op"] == ("d" if change["after"] is None else "u" if change["before"] else change["op"])
        rows[place] = change["after"]
        if change["after"] is None:
            del rows[place]
    return rows


def fold_final(records: list[Any]) -> Rows:
    """The rows of final windows: each comes once, and then only as late or withdrawn."""
    rows: Rows = {}
    for record in records:
        place, kind = (record.partition, record.key), dict(record.headers)["tandem.kind"].decode()
        row = None if record.value is None else json.loads(record.value)
        assert (kind == "withdrawn") == (row is None)
        assert (kind == "final") == (place not in rows), "a row is sent once"
        assert row != rows.get(place), "sent again"
        rows[place] = row
        if row is None:
            del rows[place]
    return rows


@pytest.mark.each_run("changes")
@pytest.mark.parametrize("wanted", [APPEND, CHANGES], ids=lambda wanted: wanted.output)
def test_messages_follow_any_order_of_what_happens(broker: kafka.BrokerConnection, tmp_path: Path, wanted: RowsWanted) -> None:
    chance, world, name = random.Random(5), World(tmp_path), f"any-{wanted.output}"
    hour, kinds = -40, set()
    world.append(0, hit("/a", 1, minute=60 * hour))
    world.trigger()
    for _ in range(8):
        match chance.choice(("events", "events", "events", "late", "recompute")):
            case "events":
                for partition in (0, 1):
                    world.append(
                        partition, *(hit(chance.choice(("/a", "/b", None)), n, minute=60 * (hour + n)) for n in range(3))
                    )
                hour += 2
                world.trigger()
            case "late":
                world.append(1, hit("/a", 7, minute=60 * -40))
                world.trigger()
            case "recompute":
                world.recompute(world.writer.end)
        if chance.random() < 0.7:
            send(broker, world, name, wanted)
    send(broker, world, name, wanted)
    world.append(1, hit("/a", 7, minute=60 * -40))
    world.trigger()
    send(broker, world, name, wanted)
    for record in consumed(broker, kafka.topic(broker, name)):
        kinds.add(json.loads(record.value)["op"] if wanted is CHANGES else dict(record.headers)["tandem.kind"])
    assert kinds >= ({"t", "r", "c", "u"} if wanted is CHANGES else {b"final", b"late"})


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for partition in (0, 1):
        made.append(partition, hit("/a", 1, minute=-300), hit(None, 2, minute=-300), hit("/a", 3))
    made.trigger()
    return made


@pytest.mark.slow
def test_a_snapshot_voids_what_the_topic_has_of_another_meaning_or_without_a_token(
    broker: kafka.BrokerConnection, world: World
) -> None:
    world.recompute(world.end)
    send(broker, world, "envelopes", CHANGES)
    ready = applied(world, edited("a measure renamed"))
    build(ready, ready.end)
    promote(ready)
    for publish in (None, roll_back):
        if publish is not None:
            publish(world)
        (step,) = send(broker, world, "envelopes", CHANGES)
        assert step.compared
    assert send(broker, world, "envelopes", CHANGES) == []
    broker.admin.delete_groups(["tandem.sink.envelopes"])
    for wanted in (CHANGES, RowsWanted(where="n > 99", output="changes")):
        (step,) = send(broker, world, "envelopes", wanted)
        assert (step.compared, step.rows) == (True, 0 if wanted.where else 3)


def test_final_rows_are_not_sent_again_without_a_token(broker: kafka.BrokerConnection, world: World) -> None:
    (step,) = send(broker, world, "finals", APPEND)
    assert (step.rows, step.gone) == (2, 0)
    with pytest.raises(SinkRefused, match="is of other rows or of another meaning"):
        send(broker, world, "finals", RowsWanted(where="n > 1", output="append"))
    broker.admin.delete_groups(["tandem.sink.finals"])
    with pytest.raises(SinkRefused, match="has final rows of view 'per_page', and its token is lost"):
        send(broker, world, "finals", APPEND)


def test_a_log_is_not_compacted(broker: kafka.BrokerConnection) -> None:
    open_topic(broker, Settings(), "rows", "update")
    with pytest.raises(SinkRefused, match="output append needs delete: compaction removes messages"):
        open_topic(broker, Settings(), "rows", "append")
