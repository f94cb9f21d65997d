"""Wrong clocks of producers, on a real broker: labels and figures of other records stay, and every command works."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.cli.__main__ import main
from tandem.cli.command.call import UNHEALTHY
from tandem.infra import kafka
from tandem.ledger.publish.publications import Publications
from tests.batch.shop import Shop
from tests.speed.sales import Running, wait_until_folded
from tests.stack import consumed, create_as, new_topic

DEFINITIONS = """
from datetime import datetime

from tandem import Event, Source, View, count, maximum, total, tumbling


class Sale(Event):
    id: int
    at: datetime
    cents: int


sales = Source(topic="TOPIC", event=Sale, event_time="at", identity=("id",), name="sales")
per_minute = View(source=sales, window=tumbling(minutes=1), measures={"n": count(), "cents": total("cents")})
stamped = View(source=sales, measures={"n": count(), "last": maximum("_append_time")})
SOURCES = (sales,)
VIEWS = (per_minute, stamped)
"""
SECOND = timedelta(seconds=1)


def sale(number: int, at: datetime) -> bytes:
    return json.dumps({"id": number, "at": at.isoformat(), "cents": 5}).encode()


def query(shop: Shop, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What `tandem query` prints with --json, as a gate of a DAG asks it too."""
    assert main(["query", *words, "--project", str(shop.folder), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_release_with_another_clock_skew_computes_the_watermark_again(shop: Shop) -> None:
    """As where one far event has moved it before there was a bound: until then it stays where answers have said."""
    far, now = datetime.now(UTC) + timedelta(days=400), datetime.now(UTC)
    unbounded = DEFINITIONS.replace("import datetime", "import datetime, timedelta").replace(
        'name="sales"', 'name="sales", clock_skew=timedelta.max'
    )
    shop.define(unbounded)
    shop.sell({0: [sale(1, now), sale(2, far)], 1: [sale(3, now)]})
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    shop.sell({1: [sale(4, far)]})
    write_archive.run(shop.run("archive"), shop.project)
    moved = recompute.run(shop.run("recompute"), shop.project).publication
    assert moved.watermarks == {"sales": instant_of(far)}
    assert moved.counts["sales"].ahead == 0
    shop.define(DEFINITIONS)
    live = shop.promote()
    assert (live.release, live.watermarks, live.maxima) == (2, {}, {})
    healed = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full")).publication
    assert healed.watermarks == {"sales": instant_of(now)}
    assert healed.counts["sales"].ahead == 2


def instant_of(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


STAMPS: Sequence[timedelta | int] = (
    timedelta(),
    timedelta(minutes=50),
    timedelta(days=40),
    -timedelta(days=40),
    1,  # 1970, in milliseconds
    1_800_000_000_000_000,  # microseconds taken for milliseconds: the year 59009
    9_000_000_000_000_000,
)


def unbounded(connection: kafka.BrokerConnection) -> kafka.Topic:
    """A topic that takes records of any time and keeps them, as brokers before Kafka 4 do."""
    wanted = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    return create_as(connection, f"{new_topic(connection).name}-any-time", wanted)


@pytest.mark.broker
@pytest.mark.slow
def test_every_command_works_with_any_timestamps(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each event counts once in both layers; ages are never of the future, and a copy of any is a copy."""
    shop = Shop.open(broker, unbounded(broker), tmp_path)
    shop.define(DEFINITIONS)
    now = datetime.now(UTC).replace(microsecond=0)
    layer = Running(shop.settings)
    layer.start(spark, shop.project())
    try:
        for number, stamp in enumerate(STAMPS):
            at = stamp if isinstance(stamp, int) else int((now + stamp).timestamp() * 1000)
            with kafka.Sender(broker.address) as sender:
                for partition in (0, 1):
                    sender.send_as(shop.topic.name, partition, kafka.Record(at, None, sale(number, now)))
                sender.send_as(shop.topic.name, number % 2, kafka.Record(at, None, b"no sale"))
            wait_until_folded(shop.settings, broker, shop.topic)
        assert layer.error is None
    finally:
        layer.stop.set()
        layer.join()
    assert layer.error is None

    def same() -> None:
        found = query(shop, capsys, "stamped")
        assert found["rows"][0]["n"] == len(STAMPS)
        assert 0 <= found["provenance"]["age_s"] < 3600
        assert found["provenance"]["ahead"] == 4  # of two stamps, in two partitions

    same()
    write_archive.run(shop.run("archive"), shop.project)
    live = recompute.run(shop.run("recompute"), shop.project).publication
    assert live.newest["sales"] <= datetime.now(UTC)
    same()
    assert main(["status", "--project", str(shop.folder)]) in (0, UNHEALTHY), "the layer has stopped by now"
    for words in (["quarantine", "--limit", "3"], ["metrics"], ["verify", "--all"], ["explain", "stamped"]):
        assert main([*words, "--project", str(shop.folder)]) == 0, capsys.readouterr()
    assert main(["doctor", "--project", str(shop.folder)]) in (0, 1)
    told = capsys.readouterr().out
    assert "message.timestamp.after.max.ms" in told
    assert Publications(shop.tables).latest() == live

    # Whoever copies the archive, too.
    copy = f"{shop.topic.name}-again"
    assert main(["replay", "sales", "--to", copy, "--project", str(shop.folder)]) == 0, capsys.readouterr()
    assert [one.timestamp for one in consumed(broker, kafka.topic(broker, copy))] == [
        one.timestamp for one in consumed(broker, shop.topic)
    ]
    exported, moved = tmp_path / "exported", tmp_path / "moved"
    assert main(["export", "--all", str(exported), "--project", str(shop.folder)]) == 0, capsys.readouterr()
    moved.mkdir()
    Shop.open(broker, shop.topic, moved).define(DEFINITIONS)
    assert main(["import", str(exported), "--project", str(moved)]) == 0, capsys.readouterr()
    assert main(["archive", "--project", str(moved)]) == 0, capsys.readouterr()
