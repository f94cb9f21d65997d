"""A replay sends the archive in log order, each record once, after any kill, to a topic of its own."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.batch.transfer import replay as replaying
from tandem.batch.transfer.replay import NotReplayed, ReplayedTopic
from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.infra.kafka import Record
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import LOG_START, Position
from tandem.views.project.project import load_files
from tandem.views.source.source import Source
from tests.batch.filed import DEFINITIONS, SOURCE, Filed, Row, row
from tests.stack import create_as, kafka_toml, new_topic, produce, stack_settings

pytestmark = pytest.mark.broker

HOLES = frozenset({3, 4, 9})


@pytest.fixture
def filed(tmp_path: Path) -> Filed:
    """Two generations: z in partitions 0 and 2, then a in partitions 0 and 1; offsets that no record has."""
    made = Filed(Tables(str(tmp_path / "state" / "tables")))
    made.name("sales", "z")
    made.file([row("z", n, at) for n in (0, 2) for at in range(20) if at not in HOLES], {("z", 0): 20, ("z", 2): 20})
    made.name("sales", "a")
    made.file([row("a", n, at) for n in (0, 1) for at in range(12)], {("a", 0): 12, ("a", 1): 12})
    return made


def source() -> Source:
    return load_files({"definitions.py": DEFINITIONS, "tandem.toml": b""}).sources[SOURCE]


def replay(
    filed: Filed, broker: kafka.BrokerConnection, to: str, start: Position = LOG_START, say: Any = lambda _: None
) -> ReplayedTopic:
    return replaying.run(stack_settings(broker, Path(filed.tables.root).parent), source(), to, start, say=say)


def expected(filed: Filed, number: int) -> list[Record]:
    """The partition's records by hand, generation z first."""
    mine = sorted(
        (one for one in filed.rows if one["partition"] == number), key=lambda one: (one["topic_id"] != "z", one["offset"])
    )
    return [record(one) for one in mine]


def record(one: Row) -> Record:
    milliseconds = round((one["timestamp"] - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
    headers = tuple((header["key"], header["value"]) for header in one["headers"] or ())
    return Record(milliseconds, one["key"], one["value"], headers)


def held(broker: kafka.BrokerConnection, name: str) -> dict[int, list[Record]]:
    topic = kafka.topic(broker, name)
    starts = {(topic.id, number): 0 for number in range(topic.partitions)}
    return {number: found for (_, number), found in kafka.records(broker, [topic], starts, most=10**6).items()}


@pytest.mark.slow
def test_after_any_kill_the_topic_has_every_record_in_order(
    filed: Filed, broker: kafka.BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = new_topic(broker).name + "-replayed"
    everything = {number: expected(filed, number) for number in range(3)}
    sent, real = 0, kafka.Sender.send_as

    def killed_at(number: int) -> Callable[..., None]:
        def send(sender: kafka.Sender, *args: Any) -> None:
            nonlocal sent
            if sent == number:
                sender.finish()
                raise KeyboardInterrupt
            sent += 1
            real(sender, *args)

        return send

    for at in (0, 7, 29, 40, len(filed.rows) - 1):
        with monkeypatch.context() as patch:
            patch.setattr(kafka.Sender, "send_as", killed_at(at))
            with pytest.raises(KeyboardInterrupt):
                replay(filed, broker, to)
        assert sum(map(len, held(broker, to).values())) == at
    done = replay(filed, broker, to)
    assert (done.sent, done.records) == (1, {number: len(records) for number, records in everything.items()})
    assert held(broker, to) == everything
    assert replay(filed, broker, to).sent == 0
    # The archive has grown: the rest is sent.
    filed.file([row("a", 1, at) for at in range(12, 15)], {("a", 1): 15})
    assert replay(filed, broker, to).sent == 3
    assert held(broker, to)[1] == expected(filed, 1)


def test_records_before_a_position_are_left_out(filed: Filed, broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").write_text(f'state = "state"\n{kafka_toml(broker)}')
    (tmp_path / "definitions.py").write_bytes(DEFINITIONS)
    to = new_topic(broker, partitions=4).name
    chosen = ["--from", "z/0:20", "--from", "z/2:15", "--from", "a/0:0"]
    assert main(["replay", SOURCE, "--to", to, *chosen, "--project", str(tmp_path)]) == 0
    assert held(broker, to) == {
        0: [record(one) for one in filed.rows if one["topic_id"] == "a" and one["partition"] == 0],
        1: expected(filed, 1),
        2: expected(filed, 2)[-5:],
        3: [],
    }
    assert main(["replay", SOURCE, "--to", to, "--project", str(tmp_path)]) == 1


@pytest.mark.slow
def test_a_replay_that_would_not_be_the_log_is_refused(filed: Filed, broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    other, few, timed, beside = (new_topic(broker, partitions=n) for n in (3, 2, 3, 4))
    produce(broker, other, [b"something else"])
    produce(broker, beside, [b"where the archive has nothing"], partition=3)
    named = create_as(broker, f"{timed.name}-log-time", {"message.timestamp.type": "LogAppendTime"}, partitions=3)
    refused = {
        "sales": "is a topic of source 'sales', so a replay would count every record again",
        other.name: "partition 0 of topic '.*' has 1 records that this replay did not send",
        beside.name: "partition 3 of topic '.*' has 1 records that this replay did not send",
        few.name: "has 2 partitions, but the archive has records of 3",
        named.name: "only CreateTime keeps timestamps",
    }
    for to, sentence in refused.items():
        with pytest.raises(NotReplayed, match=sentence):
            replay(filed, broker, to)
    with pytest.raises(NotReplayed, match="the archive of source 'sales' ends at"):
        replay(filed, broker, "never", Position.of({("z", 0): 21}))
    with pytest.raises(NotReplayed, match="source 'sales' has no archived records"):
        replay(Filed(Tables(str(tmp_path / "empty" / "tables"))), broker, "never")
    assert "never" not in kafka.describe(broker, ["never"])
    assert held(broker, few.name) == {0: [], 1: []}


def test_records_are_read_from_an_offset_on(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker)
    produce(broker, topic, [b"%d" % n for n in range(9)])
    found = kafka.records(broker, [topic], {(topic.id, 0): 4, (topic.id, 1): 0}, most=3)
    assert {number: [one.value for one in records] for (_, number), records in found.items()} == {0: [b"4", b"5", b"6"], 1: []}
    assert kafka.configurations(broker, [topic.name])[topic.name]["retention.ms"] == "-1"
