"""Answers of views that look up in a table are the oracle's in every row that is not labelled, and in all after a recompute.

Two speed layers, archive and recompute run in this process, in any order, with restarts between them.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.infra.settings import Settings, SpeedSettings
from tandem.ledger import table_versions
from tandem.ledger.log.positions import Position
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.read.provenance import Provenance, TableProvenance
from tests import one_process
from tests.one_process import MemoryBroker, MemoryTopic
from tests.speed.sales import START
from tests.speed.test_in_one_process import Layer

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, Table, View, count, total, tumbling

class Price(Event):
    sku: str
    since: datetime
    price: int
    deleted: bool = False

class Order(Event):
    at: datetime
    city: str
    sku: str
    items: int

prices = Source(topic="{prices}", event=Price, event_time="since")
orders = Source(topic="{orders}", event=Order, event_time="at")
price_of = Table(prices, key={{"sku": "sku"}}, gone="deleted")
MEASURES = {{"worth": total("items * p.price"), "matched": count(filter="p IS NOT NULL"), "n": count()}}
AS_OF, NOW = {{"p": price_of.as_of(sku="sku")}}, {{"p": price_of.now(sku="sku")}}
KEYS, WINDOW = {{"city": "city"}}, tumbling(minutes=10)
by_time = View(source=orders, lookup=AS_OF, keys=KEYS, window=WINDOW, measures=MEASURES)
in_all = View(source=orders, lookup=AS_OF, keys=KEYS, measures=MEASURES)
by_now = View(source=orders, lookup=NOW, keys=KEYS, window=WINDOW, measures=MEASURES)
SOURCES = (prices, orders)
VIEWS = (price_of, by_time, in_all, by_now)
"""

WINDOW_S = 600
Row = Mapping[str, Any]


@dataclass
class OneOf(Layer):
    """The speed layer of one of the two sources."""

    definitions: bytes = b""

    @property
    def files(self) -> dict[str, bytes]:
        return {"definitions.py": self.definitions, "tandem.toml": b""}


@dataclass(frozen=True)
class Shop:
    """Orders, and the prices of what is ordered."""

    prices: OneOf
    orders: OneOf

    @property
    def settings(self) -> Settings:
        return self.orders.settings

    def recompute(self) -> None:
        self.prices.follow.tail.live = self.orders.recompute()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return shop_in(tmp_path, monkeypatch)


def shop_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop whose layers have not started."""
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    monkeypatch.setattr(table_versions, "_MOST_ADDED", 3)
    settings = Settings(state=str(tmp_path), speed=SpeedSettings(max_events=25, compact_every=5, table_wait_ms=0))
    topics = {name: broker.new_topic(partitions=2) for name in ("prices", "orders")}
    definitions = DEFINITIONS.format(**{name: topic.topic.name for name, topic in topics.items()}).encode()
    found = {name: OneOf(broker, topic, settings, source=name, definitions=definitions) for name, topic in topics.items()}
    return Shop(**found)


def below(topic: MemoryTopic, position: Position) -> Iterator[Row]:
    """The events below a position, in the order of the log."""
    for number, rows in topic.rows.items():
        for row in rows[: position.get((topic.topic.id, number), 0)]:
            if row is not None:
                yield json.loads(row["value"])


def worth(found: Row | None, order: Row) -> tuple[int, int, int]:
    return (0, 0, 1) if found is None else (order["items"] * found["price"], 1, 1)


def expected(view: str, orders: Sequence[Row], prices: Sequence[Row]) -> dict[tuple[str, int | None], tuple[int, int, int]]:
    """The answer by nested loops."""
    totals: dict[tuple[str, int | None], tuple[int, int, int]] = {}
    for order in orders:
        found: Row | None = None
        for price in prices:
            if price["sku"] == order["sku"] and (view == "by_now" or price["since"] <= order["at"]):
                found = price if found is None or price["since"] >= found["since"] else found
        found = None if found is None or found["deleted"] else found
        window = None if view == "in_all" else order["at"] // WINDOW_S
        key = order["city"], window
        totals[key] = tuple(map(sum, zip(totals.get(key, (0, 0, 0)), worth(found, order), strict=True)))  # type: ignore[assignment]
    return totals


def named(rows: Sequence[Row]) -> dict[tuple[str, int | None], Row]:
    def window(row: Row) -> int | None:
        start = row["window_start"]
        return None if start is None else (datetime.fromisoformat(start) - START) // timedelta(seconds=WINDOW_S)

    return {(row["city"], window(row)): row for row in rows}


def seconds(event: Row, field: str) -> dict[str, Any]:
    at = datetime.fromisoformat(event[field])
    return {**event, field: round((at - START).total_seconds())}


def checked(shop: Shop, view: str, rows: Sequence[Row], told: Provenance) -> int:
    """How many rows are labelled; all others are the oracle's at the positions that the answer names."""
    table = told.tables["prices"]
    orders = [seconds(each, "at") for each in below(shop.orders.topic, told.realtime)]
    prices = [seconds(each, "since") for each in below(shop.prices.topic, table.position)]
    right, there, labelled = expected(view, orders, prices), named(rows), 0
    assert there.keys() == right.keys()
    for key, row in there.items():
        if "late_table" in row.get("_exactness", ()):
            labelled += 1
        else:
            assert (row["worth"] or 0, row["matched"], row["n"]) == right[key], (view, key)
    assert not labelled or table.corrections
    return labelled


def asked(shop: Shop) -> int:
    """Ask each view by the reader of tables and from memory, and check both answers."""
    labelled, reader, store = 0, Reader(shop.orders.tables), Store(shop.orders.tables, 7)
    for view in ("by_time", "in_all", "by_now"):
        answer = given(reader.answer(view))
        found = checked(shop, view, answer.rows(), answer.provenance)
        pinned = store.pinned()
        held = store.in_memory(pinned, pinned.view(view))
        assert held is not None
        rows = [held.answers.row((row["city"],), None if view == "in_all" else start(row)) for row in answer.rows()]
        assert [row for row in rows if row is not None] == answer.rows()
        labelled += found
    return labelled


def start(row: Row) -> int:
    return round(datetime.fromisoformat(row["window_start"]).timestamp()) * 1_000_000


def at(second: int) -> str:
    return (START + timedelta(seconds=second)).isoformat()


def price(dice: random.Random, now: int) -> bytes:
    """Of five prices one is late."""
    since = max(0, now - dice.randrange(2_000)) if dice.random() < 0.25 else now
    return json.dumps(
        {"sku": dice.choice("abc"), "since": at(since), "price": dice.randrange(1, 9), "deleted": dice.random() < 0.15}
    ).encode()


def order(dice: random.Random, now: int) -> bytes:
    since = max(0, now - dice.randrange(1_500)) if dice.random() < 0.25 else now
    return json.dumps(
        {"at": at(since), "city": dice.choice(("Oslo", "Rome")), "sku": dice.choice("abcd"), "items": dice.randrange(1, 5)}
    ).encode()


@pytest.mark.parametrize("seed", range(4))
def test_a_row_without_a_label_is_the_oracles_whatever_happens_in_between(shop: Shop, seed: int) -> None:
    dice, now, late = random.Random(seed), 0, 0
    shop.prices.start()
    shop.orders.start()
    for _ in range(16):
        now += dice.randrange(400)
        shop.prices.topic.append([price(dice, now) for _ in range(dice.randrange(4))], partition=dice.randrange(2))
        shop.orders.topic.append([order(dice, now) for _ in range(dice.randrange(8))], partition=dice.randrange(2))
        what = dice.choice(("prices", "orders", "both", "both", "restart", "archive", "recompute"))
        if what in ("prices", "both"):
            shop.prices.streaming.trigger(dice.random)
        if what in ("orders", "both"):
            shop.orders.streaming.trigger(dice.random)
        if what == "restart":
            shop.orders.restart()
        if what in ("archive", "recompute"):
            shop.orders.archive()
        if what == "recompute":
            shop.prices.drain()
            shop.orders.drain()
            shop.recompute()
        late += asked(shop)
    shop.prices.drain()
    shop.orders.drain()
    shop.orders.archive()
    shop.recompute()
    assert asked(shop) == 0, "after a recompute of all there is nothing is late"
    assert late, "some versions came late"
    none: TableProvenance = given(Reader(shop.orders.tables).answer("by_time")).provenance.tables["prices"]
    assert none.corrections == 0
