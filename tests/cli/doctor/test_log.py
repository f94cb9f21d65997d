"""Topics that do not fit their sources, on a real broker; an absent broker; clocks."""

import socket
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tandem.cli.doctor import log as looks
from tandem.cli.doctor.check import FailedCheck
from tandem.infra import kafka
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publications
from tandem.views.source.event import Event
from tandem.views.source.source import Source
from tests.batch.filed import Filed, row
from tests.cli.doctor.looked import LATER, fine, looked, wrong
from tests.serving.world import NOON, World, hit, position
from tests.stack import create_as, delete_below, kafka_toml, new_topic, produce

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source

class Sale(Event):
    at: datetime

sales = Source(**({"topic": TOPICS, "event": Sale, "event_time": "at"} | dict(MORE)))
SOURCES = (sales,)
VIEWS = ()
"""
_FINE = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "2",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
}


class Sale(Event):
    at: datetime


SALES = Source(topic="sales", event=Sale, event_time="at", name="sales")


def write(folder: Path, *topics: str, more: str = "") -> None:
    (folder / "definitions.py").write_text(DEFINITIONS.replace("TOPICS", repr(topics)).replace("MORE", more))


@pytest.fixture
def folder(tmp_path: Path, broker: kafka.BrokerConnection) -> Path:
    (tmp_path / "tandem.toml").write_text(kafka_toml(broker))
    return tmp_path


@pytest.fixture
def made(broker: kafka.BrokerConnection) -> Callable[..., kafka.Topic]:
    """Make a topic with a configuration."""

    def make(**configuration: str) -> kafka.Topic:
        name = f"{new_topic(broker).name}-set"
        named = {key.replace("_", "."): value for key, value in configuration.items()}
        return create_as(broker, name, named)

    return make


@pytest.mark.broker
@pytest.mark.parametrize(
    ("configuration", "problem", "told"),
    [
        ({"cleanup_policy": "compact"}, looks.COMPACTED, "cleanup.policy is compact"),
        ({"max_message_bytes": "999999"}, looks.SMALL, "max.message.bytes is 999999"),
    ],
)
def test_a_topic_that_does_not_fit_its_source_is_a_finding(
    folder: Path, made, configuration: dict[str, str], problem: FailedCheck, told: str
) -> None:
    write(folder, name := made().name)
    assert fine(folder, "topics") == f"{name}: configured as their sources need"
    write(folder, name := made(**configuration).name)
    assert wrong(folder, "topics", problem).what.startswith(f"topic '{name}': {told}")


@pytest.mark.broker
def test_a_compacted_source_needs_a_compacted_topic(folder: Path, made) -> None:
    write(folder, made(cleanup_policy="compact").name, more="compacted=True")
    fine(folder, "topics")
    write(folder, made().name, more="compacted=True")
    assert wrong(folder, "topics", looks.NOT_COMPACTED).what == "source 'sales': cleanup.policy is delete"


@pytest.mark.broker
def test_append_time_needs_the_brokers_timestamps(folder: Path, made) -> None:
    write(folder, made(message_timestamp_type="LogAppendTime").name, more='event_time="_append_time"')
    fine(folder, "topics")
    write(folder, made().name, more='event_time="_append_time"')
    assert "message.timestamp.type is CreateTime" in wrong(folder, "topics", looks.OTHERS_TIME).what


@pytest.mark.broker
def test_a_missing_topic_is_a_finding_and_the_others_are_checked(folder: Path, made) -> None:
    write(folder, made().name, "no-such-topic")
    assert wrong(folder, "topics", looks.MISSING).what == "topic 'no-such-topic' of source 'sales' does not exist"
    assert fine(folder, "retention") == "retention does not threaten records that are not archived"
    assert fine(folder, "timestamps") == "no record has a timestamp in the future"


@pytest.mark.broker
def test_lost_records_and_records_near_their_loss_are_findings(folder: Path, broker: kafka.BrokerConnection, made) -> None:
    topic, now = made(retention_ms=str(40 * 3_600_000)), datetime.now(UTC)
    write(folder, topic.name)
    produce(broker, topic, [b"x"] * 3, at=now - timedelta(hours=3))
    fine(folder, "retention", now=now)
    produce(broker, topic, [b"x"], at=now - timedelta(hours=25), partition=1)
    told = wrong(folder, "retention", looks.SHORT, now=now).what
    assert told.startswith("source 'sales': in 15.0 hours the log may lose records that are not archived")
    filed = Filed(Tables(str(folder / ".tandem" / "tables")))
    filed.name(topic.name, topic.id)
    filed.file([row(topic.id, 0, 0), row(topic.id, 1, 0)], {(topic.id, 0): 1, (topic.id, 1): 1})
    fine(folder, "retention", now=now)
    delete_below(broker, topic, {0: 3})
    assert wrong(folder, "retention", looks.LOST, now=now).what == "source 'sales': 2 offsets lost"


@pytest.mark.broker
def test_a_record_with_any_timestamp_is_a_finding(folder: Path, broker: kafka.BrokerConnection, made) -> None:
    """Of a later day, and of a year that no datetime has: micro- and nanoseconds that were taken for milliseconds."""
    topic = made(message_timestamp_after_max_ms=str(2**63 - 1), retention_ms="-1")
    write(folder, topic.name)
    with kafka.Sender(broker.address) as sender:
        for milliseconds, problem in (
            (4_102_444_800_000, looks.FUTURE_RECORD),
            (1_800_000_000_000_000, looks.OFF_CALENDAR),
            (1_800_000_000_000_000_000, looks.OFF_CALENDAR),
        ):
            sender.send_as(topic.name, 0, kafka.Record(milliseconds, None, b"x"))
            sender.finish()
            written = "2100-01-01T00:00:00+00:00" if problem == looks.FUTURE_RECORD else f"{milliseconds} ms"
            assert wrong(folder, "timestamps", problem).what.endswith(f"has a record with timestamp {written}")
    assert wrong(folder, "topics", looks.ANY_TIME).what.endswith(f"message.timestamp.after.max.ms is {2**63 - 1}")
    assert fine(folder, "retention") == "retention does not threaten records that are not archived"


@pytest.mark.parametrize(
    ("change", "replicas", "problem"),
    [
        ({}, 3, None),
        ({"min.insync.replicas": "1"}, 1, None),
        ({"min.insync.replicas": "1"}, 3, looks.ONE_COPY),
        ({"min.insync.replicas": "3"}, 3, looks.NO_SPARE),
        ({"min.insync.replicas": "4"}, 3, looks.NO_WRITES),
        ({"max.message.bytes": "1000000"}, 3, None),
        ({"message.timestamp.after.max.ms": "3600001"}, 3, looks.ANY_TIME),
    ],
)
def test_settings_that_need_several_brokers_are_checked(
    change: dict[str, str], replicas: int, problem: FailedCheck | None
) -> None:
    found = [each.fix for each in looks.judged(SALES, "sales", {**_FINE, **change}, replicas)]
    assert found == ([] if problem is None else [problem.fix.format(replicas=replicas, fewer=replicas - 1)])


def test_the_timestamp_settings_of_an_older_broker_are_checked() -> None:
    """Before Kafka 3.6 one bound was for both sides, and where there is none at all, any time is let in."""
    older = {name: value for name, value in _FINE.items() if name != "message.timestamp.after.max.ms"}
    for more, problems in (
        ({}, 1),
        ({"message.timestamp.difference.max.ms": str(2**63 - 1)}, 1),
        ({"message.timestamp.difference.max.ms": "60000"}, 0),
    ):
        assert len([*looks.judged(SALES, "sales", {**older, **more}, 3)]) == problems


def test_a_broker_that_does_not_answer_is_one_finding(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").touch()
    write(tmp_path, "sales")
    (found,) = looked(tmp_path, "broker")
    assert (found.outcome, found.what) == ("unknown", "embedded broker, not running; `tandem up` starts it")
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = {"TANDEM_KAFKA_BOOTSTRAP": f"127.0.0.1:{unused.getsockname()[1]}"}
    assert "connection refused" in wrong(tmp_path, "broker", environ=nowhere).what
    # Where it goes between two checks:
    for check in ("topics", "timestamps"):
        wrong(tmp_path, check, environ=nowhere)


@pytest.mark.broker
def test_a_broker_that_answers_is_named(folder: Path, broker: kafka.BrokerConnection) -> None:
    assert fine(folder, "broker") == f"outside broker, answers at {broker.address.bootstrap}"


def test_stored_times_in_the_future_are_findings(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/", 1))
    world.trigger()
    assert fine(tmp_path, "clock", now=LATER) == f"{LATER:%FT%T}+00:00; no stored time is in the future"
    fine(tmp_path, "clock", now=NOON - looks.SKEW)
    told = [each.what for each in looked(tmp_path, "clock", now=NOON - looks.SKEW - timedelta(seconds=1))]
    assert told == [
        f"{what} has the time 2026-11-01T12:00:00+00:00; this machine's clock says 2026-11-01T11:59:54+00:00"
        for what in ("publication 1", "the newest commit of release 1 for source 'hits'")
    ]
    world.clock = LATER + timedelta(days=1)
    world.recompute(position(1))
    assert Publications(world.tables).latest().number == 2
    found = wrong(tmp_path, "clock", looks.FUTURE)
    assert "until 2026-11-03T12:00:00+00:00" in (found.fix or "")
