"""Timestamps that no clock has: every reader of the log takes the same nearest time, and none stops."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive as archiving
from tandem.batch.recompute import recompute
from tandem.batch.runtime.session import BatchRun
from tandem.infra import kafka
from tandem.infra.kafka.contract import Record
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.publish.publications import Publications
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.speed.hot.process import HotProcess
from tandem.views.project.project import load_files
from tests.speed.sales import Running, folded, log_end, sale, settings_for, total, wait_for, wait_until_folded
from tests.stack import create_as, environ, kafka_toml, new_topic

pytestmark = pytest.mark.broker

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, count, maximum, minimum

class Sale(Event):
    id: int
    at: datetime
    shop: str
    amount: int

sales = Source(topic="{topic}", event=Sale, event_time="at", identity=("id",))
stamps = View(
    source=sales,
    keys={{"id": "id"}},
    measures={{"n": count(), "first": minimum("_append_time"), "last": maximum("_append_time")}},
)
SOURCES = (sales,)
VIEWS = (stamps,)
"""
MICROSECONDS, NANOSECONDS = 1_793_534_400_000_000, 1_793_534_400_000_000_000
FIRST, LAST = "1582-10-15T00:00:00Z", "9999-12-31T23:59:59.999999Z"
STAMPS = {
    1: (1_793_534_400_000, "2026-11-01T12:00:00Z"),
    2: (MICROSECONDS, LAST),
    3: (NANOSECONDS, LAST),
    4: (9_223_372_036_854_775, LAST),
    5: (9_223_372_036_854_776, LAST),
    6: (2**63 - 1, LAST),
    7: (-1, "1969-12-31T23:59:59.999000Z"),
    8: (1, "1970-01-01T00:00:00.001000Z"),
    9: (-12_219_292_800_001, FIRST),
    10: (-62_135_596_800_001, FIRST),
    11: (-9_223_372_036_854_776, FIRST),
    12: (-(2**63), FIRST),
}
"""By the event's id the record's timestamp in milliseconds, and what every layer reads."""
OFF = sum(read in (FIRST, LAST) for _, read in STAMPS.values())


def send(broker: kafka.BrokerConnection, topic: kafka.Topic, ids: list[int], *, partition: int = 0) -> None:
    with kafka.Sender(broker.address) as sender:
        for number in ids:
            sender.send_as(topic.name, partition, Record(STAMPS[number][0], None, sale(number)))


def truth(ids: list[int]) -> dict[int, tuple[int, str, str]]:
    return {number: (1, STAMPS[number][1], STAMPS[number][1]) for number in ids}


def by_id(rows: list[dict[str, Any]]) -> dict[int, tuple[int, str, str]]:
    return {row["id"]: (row["n"], row["first"], row["last"]) for row in rows}


def answers(settings: Settings) -> dict[int, tuple[int, str, str]]:
    reader = Reader(Tables.of(settings))
    reader.refresh()
    return by_id(given(reader.answer("stamps")).rows())


@pytest.mark.slow
def test_all_layers_read_the_same_times_and_none_stops(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    """Real records with nanoseconds, microseconds, no time and times before any calendar, on a broker that takes any."""
    settings = settings_for(broker, tmp_path / ".tandem")
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    topic = create_as(broker, f"{new_topic(broker).name}-any", any_time)
    project = load_files({"definitions.py": DEFINITIONS.format(topic=topic.name).encode(), "tandem.toml": b""})
    (tmp_path / "tandem.toml").write_text(kafka_toml(broker))
    (tmp_path / "definitions.py").write_text(DEFINITIONS.format(topic=topic.name))
    run = BatchRun(settings, "test", lambda: datetime.now(UTC), lambda _: None, environ())
    early, late = list(STAMPS)[:6], list(STAMPS)[6:]
    send(broker, topic, early)
    layer = Running(settings)
    layer.start(spark, project)
    wait_for(lambda: layer.error is not None or folded(settings) == log_end(broker, topic))
    assert layer.error is None
    send(broker, topic, late, partition=1)
    wait_until_folded(settings, broker, topic)
    layer.stop.set()
    layer.join()
    assert layer.error is None
    assert answers(settings) == truth([*STAMPS])
    assert total(settings, "off_calendar") == OFF

    feed = HotFeed(lambda: 0.0)
    hot = HotProcess(tmp_path, environ(), feed, print)
    hot.start()
    try:
        # Copies of all of them: whoever starts anew reads identities from the same records.
        send(broker, topic, [*STAMPS])
        connection = Connection(Store(Tables.of(settings), 1, hot=feed))

        def follows() -> bool:
            connection.refresh()
            return connection.snapshot().pinned.snapshot.positions["sales"] == log_end(broker, topic)

        wait_for(follows)
        assert by_id(connection.view("stamps").rows()) == truth([*STAMPS])
    finally:
        hot.stop()

    again = Running(settings)
    again.start(spark, project)
    wait_for(lambda: again.error is not None or folded(settings) == log_end(broker, topic))
    again.stop.set()
    again.join()
    assert again.error is None
    assert total(settings, "events") == len(STAMPS)

    (archived,) = archiving.run(run, lambda: project)
    assert (archived.end, archived.gaps) == (log_end(broker, topic), ())
    recompute.run(run, lambda: project)
    assert answers(settings) == truth([*STAMPS])
    live = Publications(Tables.of(settings)).latest()
    assert live is not None
    assert live.counts["sales"].off_calendar == 2 * OFF == total(settings, "off_calendar")
