"""Look-ups in a table on a real broker and real Spark: the tasks have its versions, also those of the last micro-batch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.infra import kafka
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import end
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.project.project import load_files
from tests.speed.sales import Running, log_end, settings_for, wait_for
from tests.speed.test_look_ups_in_one_process import DEFINITIONS, at, expected, named
from tests.stack import new_topic, produce

pytestmark = pytest.mark.broker

ARTICLES = [f"article {number}" for number in range(3_000)]
"""More than travels with the tasks: Spark broadcasts their versions."""


def prices_at(since: int, skus: Sequence[str], *, price: int) -> list[dict[str, Any]]:
    return [{"sku": sku, "since": since, "price": price, "deleted": False} for sku in skus]


def orders_at(second: int, skus: Sequence[str]) -> list[dict[str, Any]]:
    return [{"at": second, "city": "Oslo", "sku": sku, "items": 2} for sku in skus]


def written(events: Sequence[dict[str, Any]], field: str) -> list[bytes]:
    return [json.dumps({**event, field: at(event[field])}).encode() for event in events]


def test_orders_find_the_price_of_their_time(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    settings = settings_for(broker, tmp_path, compact_every=4, table_wait_ms=60_000)
    topics = {name: new_topic(broker) for name in ("prices", "orders")}
    definitions = DEFINITIONS.format(**{name: topic.name for name, topic in topics.items()})
    project = load_files({"definitions.py": definitions.encode(), "tandem.toml": b""})
    prices, orders = list[dict[str, Any]](), list[dict[str, Any]]()
    tables = Tables.of(settings)

    def send(source: str, events: Sequence[dict[str, Any]]) -> None:
        (prices if source == "prices" else orders).extend(events)
        produce(broker, topics[source], written(events, "since" if source == "prices" else "at"))

    def reached(source: str) -> Position:
        return end(Follower(tables, 1, source).poll()) or LOG_START

    def until_counted(*sources: str) -> None:
        for source in sources:
            wait_for(
                lambda source=source: (end(Follower(tables, 1, source).poll()) or LOG_START) == log_end(broker, topics[source])
            )

    def refuse_wrong(*, labelled: bool) -> None:
        answer = given(Reader(tables).answer("by_time"))
        right, rows = expected("by_time", orders, prices), named(answer.rows())
        assert any("late_table" in row.get("_exactness", ()) for row in rows.values()) == labelled
        for key, row in rows.items():
            if "late_table" not in row.get("_exactness", ()):
                assert (row["worth"] or 0, row["matched"], row["n"]) == right[key]
        assert rows.keys() == right.keys()

    layer = Running(settings)
    layer.start(spark, project)
    try:
        # Both at once: the micro-batch of orders waits for the prices that the log has.
        send("prices", prices_at(0, ARTICLES, price=3))
        send("orders", orders_at(60, ARTICLES[::7]))
        until_counted("prices", "orders")
        refuse_wrong(labelled=False)
        send("prices", prices_at(700, ARTICLES[:5], price=5))
        send("orders", [*orders_at(650, ARTICLES[:9]), *orders_at(1_300, ARTICLES[:9])])
        until_counted("prices", "orders")
        refuse_wrong(labelled=False)
        send("prices", prices_at(30, ARTICLES[:1], price=7))  # late: an order of second 60 found another one
        until_counted("prices")
        refuse_wrong(labelled=True)
    finally:
        layer.stop.set()
        layer.join()
    assert layer.error is None
