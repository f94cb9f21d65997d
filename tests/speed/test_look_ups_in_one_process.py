"""Answers of views that look up in a table are the oracle's in every row that is not labelled, and in all after a recompute.

Two speed layers, archive and recompute run in this process, in any order, with restarts between them.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tandem.batch.erase import erase, find_records
from tandem.batch.erase.erase import ErasureResult
from tandem.batch.erase.find_records import NotForgotten, RecordSelection
from tandem.batch.erase.prove import prove
from tandem.infra.settings import Settings, SpeedSettings
from tandem.ledger import states_by_key, table_versions
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import promotion
from tandem.ledger.publish.audits import Audits
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.read.provenance import Provenance, TableProvenance
from tandem.serving.sinks.erasure import erase_stored_rows
from tandem.views.arrow.arrays import from_ipc
from tandem.views.source.source import Source
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
CHAIN = {{**AS_OF, "q": price_of.as_of(sku="substr('aabbccdd', p.price, 1)")}}
CHAINED = {{"worth": total("items * q.price"), "matched": count(filter="q IS NOT NULL"), "n": count()}}
by_chain = View(source=orders, lookup=CHAIN, keys=KEYS, window=WINDOW, measures=CHAINED)
by_now = View(source=orders, lookup=NOW, keys=KEYS, window=WINDOW, measures=MEASURES)
SOURCES = (prices, orders)
VIEWS = (price_of, by_time, in_all, by_chain, by_now)
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
    """Orders, and the prices of what is ordered; `history` are prices that came before the log."""

    prices: OneOf
    orders: OneOf
    history: Sequence[Row] = ()

    @property
    def settings(self) -> Settings:
        return self.orders.settings

    def recompute(self) -> None:
        self.prices.follow.tail.live = self.orders.recompute()


@pytest.fixture
def table_mb() -> int:
    return 64


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_mb: int) -> Shop:
    return shop_in(tmp_path, monkeypatch, table_mb)


def shop_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_mb: int = 64) -> Shop:
    """A shop whose layers have not started; with `table_mb` of 0 they have no table in memory."""
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    monkeypatch.setattr(table_versions, "_MOST_ADDED", 3)
    settings = Settings(
        state=str(tmp_path), speed=SpeedSettings(max_events=25, compact_every=5, table_wait_ms=0, table_mb=table_mb)
    )
    topics = {name: broker.new_topic(partitions=2) for name in ("prices", "orders")}
    definitions = DEFINITIONS.format(**{name: topic.topic.name for name, topic in topics.items()}).encode()
    found = {name: OneOf(broker, topic, settings, source=name, definitions=definitions) for name, topic in topics.items()}
    return Shop(found["prices"], found["orders"])


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
        found = valid(view, order["sku"], order["at"], prices)
        if view == "by_chain":
            found = found and valid(view, "aabbccdd"[found["price"] - 1 : found["price"]], order["at"], prices)
        window = None if view == "in_all" else order["at"] // WINDOW_S
        key = order["city"], window
        totals[key] = tuple(map(sum, zip(totals.get(key, (0, 0, 0)), worth(found, order), strict=True)))  # type: ignore[assignment]
    return totals


def valid(view: str, sku: str, at: int, prices: Sequence[Row]) -> Row | None:
    found: Row | None = None
    for price in prices:
        if price["sku"] == sku and (view == "by_now" or price["since"] <= at):
            found = price if found is None or price["since"] >= found["since"] else found
    return None if found is None or found["deleted"] else found


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
    prices = [*shop.history, *(seconds(each, "since") for each in below(shop.prices.topic, table.position))]
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
    for view in ("by_time", "in_all", "by_chain", "by_now"):
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


def files_of_tables(shop: Shop) -> set[Path]:
    return {*shop.settings.folder.glob("checkpoints/*/tables/*.arrow")}


@pytest.mark.each_run("1-0")
@pytest.mark.parametrize(("seed", "table_mb"), [(0, 64), (1, 0), (2, 0), (3, 64)])
def test_a_row_without_a_label_is_the_oracles_whatever_happens_in_between(shop: Shop, seed: int, table_mb: int) -> None:
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
    assert bool(files_of_tables(shop)) == (not table_mb)
    found = [each for each in Audits(shop.orders.tables).history() if each.figures is not None and each.figures.differ]
    causes = Counter((each.view, each.figures.cause) for each in found if each.figures is not None)
    assert {cause for _, cause in causes} == {"table"}, "a late version is the cause of each difference"
    none: TableProvenance = given(Reader(shop.orders.tables).answer("by_time")).provenance.tables["prices"]
    assert none.corrections == 0


OTHER_WINDOWS = {
    "the last event of a window": ("count_window(1)", None, [0, 140], [140]),
    "the last event of the last window": ("sliding_count_window(1)", None, [0, 140], [140]),
    "the first event of a session": ("session(minutes=1)", None, [0, 140], [140]),
    "windows of events that count": ("count_window(1)", "p IS NOT NULL", [0, 150, 300], [0, 300]),
    "the last event that counts": ("sliding_count_window(2)", "p IS NOT NULL", [0, 150, 300], [0]),
    "sessions that an event joins": ("session(minutes=3)", "p IS NOT NULL", [0, 150, 300], [0, 300]),
    "windows that a price ends": ("punctuation('p.price > 3')", None, [0, 150, 300], [0]),
}
"""A window, a filter, when a is ordered, or b in between, and the starts of rows that the price of b since 140 may change."""


@pytest.mark.each_run("the last event of a window", "windows of events that count", "sessions that an event joins")
@pytest.mark.parametrize("name", OTHER_WINDOWS)
def test_rows_of_other_windows_that_a_late_version_may_change_are_labelled(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, where, seconds_of, starts = OTHER_WINDOWS[name]
    imported = "session, sliding_count_window, total, tumbling, count_window, punctuation"
    other = DEFINITIONS.replace("total, tumbling", imported).replace("tumbling(minutes=10)", f"{window}")
    other = other.replace("by_time = View(", f"by_time = View(where={where!r}, ")
    monkeypatch.setattr(f"{__name__}.DEFINITIONS", other)
    shop = shop_in(tmp_path, monkeypatch)
    for layer in (shop.prices, shop.orders):
        layer.start()

    def cost(sku: str, since: int, price: int) -> None:
        shop.prices.topic.append([json.dumps({"sku": sku, "since": at(since), "price": price}).encode()])
        shop.prices.drain()

    cost("a", 0, 1)
    cost("b", 200, 1)
    orders = [("b" if second in (140, 150) else "a", second) for second in seconds_of]
    shop.orders.topic.append(
        [json.dumps({"at": at(second), "city": "Oslo", "sku": sku, "items": 1}).encode() for sku, second in orders]
    )
    shop.orders.drain()
    cost("b", 140, 5)
    rows = given(Reader(shop.orders.tables).answer("by_time")).rows()
    labelled = [seconds(row, "window_start")["window_start"] for row in rows if "late_table" in row.get("_exactness", ())]
    assert labelled == starts


@pytest.mark.each_run("the layer's file-0")
@pytest.mark.parametrize("table_mb", [0])
@pytest.mark.parametrize("what", ["the layer's file", "the batch file"])
def test_a_table_whose_file_is_gone_ends_the_layer_and_the_next_one_looks_up_all_of_it(
    shop: Shop, what: str, table_mb: int
) -> None:
    dice = random.Random(7)
    shop.prices.start()
    shop.orders.start()

    def sell(now: int) -> None:
        shop.prices.topic.append([price(dice, now) for _ in range(9)])
        shop.prices.drain()
        shop.orders.topic.append([order(dice, now) for _ in range(9)])

    sell(500)
    shop.orders.drain()
    shop.orders.archive()
    shop.recompute()
    sell(900)
    if what == "the layer's file":
        shop.orders.drain()
        sell(1_000)
        gone = files_of_tables(shop)
        states_by_key._MAPS.clear()  # as a worker that has just begun
    else:
        shop.orders.restart()
        gone = {*shop.settings.folder.glob("tables/views/price_of_versions/**/*.parquet")}
    away = {path: path.rename(path.with_suffix(".away")) for path in gone}
    before = shop.orders.follow.tail.writer.end
    assert gone
    assert shop.orders.streaming.trigger()
    with pytest.raises(Unreadable, match="; restore it, or remove it if it can be rebuilt"):
        shop.orders.follow.check()
    assert shop.orders.follow.tail.writer.end == before, "nothing is committed"
    for path, other in away.items():
        other.rename(path)
    shop.orders.restart()
    assert len(files_of_tables(shop)) == 0, "a layer that ends deletes its files"
    shop.orders.drain()
    assert files_of_tables(shop)
    asked(shop)
    shop.orders.archive()
    shop.recompute()
    assert asked(shop) == 0


@pytest.mark.each_run("0-64")
@pytest.mark.parametrize(("seed", "table_mb"), [(0, 64), (1, 0)])
def test_after_a_rollback_a_row_without_a_label_is_the_oracles(shop: Shop, seed: int, table_mb: int) -> None:
    """An earlier publication answers by its versions and those of the commits from its cut on, and so does what follows it."""
    dice, numbers, standing = random.Random(seed), list[int](), StandingReleases(shop.orders.tables)
    shop.prices.start()
    shop.orders.start()

    def step(now: int) -> None:
        shop.prices.topic.append([price(dice, now) for _ in range(3)], partition=dice.randrange(2))
        shop.orders.topic.append([order(dice, now) for _ in range(6)], partition=dice.randrange(2))
        shop.prices.drain()
        shop.orders.drain()

    def recompute() -> None:
        shop.orders.archive()
        shop.recompute()
        live = standing.publications.latest()
        assert live is not None
        numbers.append(live.number)

    for number in range(3):
        step(number * 700)
        recompute()
    step(2_100)
    late = asked(shop)
    when = datetime.now(UTC)
    live = promotion.rollback(standing, numbers[-2], days=7, keep=9, since=when - timedelta(days=1), by="test", at=when)
    shop.prices.follow.tail.live = shop.orders.follow.tail.live = live
    late += asked(shop)
    step(2_800)
    late += asked(shop)
    resumed = promotion.resume(standing, by="test", at=datetime.now(UTC))
    shop.prices.follow.tail.live = shop.orders.follow.tail.live = resumed
    recompute()
    assert asked(shop) == 0
    assert late, "some versions came late"


SECRET = 918_273_645


def values_in(value: Any) -> Iterator[str]:
    """A value, and what is in it: of lists and pairs, and of streams of Arrow."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from values_in(each)
    elif isinstance(value, bytes) and value[:4] == b"\xff\xff\xff\xff":
        yield from_ipc(value).to_string(show_metadata=False, preview_cols=100)
    else:
        yield str(value)


def states_with_secret(folder: Path) -> list[str]:
    """The folders of tables of which a file has the secret price, or what some orders were worth by it."""
    secrets = [str(items * SECRET + others) for items in (1, 2, 3) for others in (0, 2)]
    tables = {file: pq.read_table(file, partitioning=None).to_pylist() for file in folder.rglob("*.parquet")}
    return sorted(
        {
            str(file.relative_to(folder).parent)
            for file, rows in tables.items()
            if any(number in text for row in rows for text in values_in([*row.values()]) for number in secrets)
        }
    )


def test_nothing_has_an_erased_price_that_was_looked_up(shop: Shop) -> None:
    """Neither batch states, nor micro-batches before and after the cut: the command asks for an archive run until none has it."""

    def forget(select: Callable[[Source], RecordSelection] | None = None) -> list[ErasureResult]:
        run = one_process.run(shop.settings, "forget")
        return erase.run(run, "prices", select, stored=partial(erase_stored_rows, shop.orders.tables, alerts={}))

    def sell(second: int) -> None:
        order = {"at": at(second), "city": "Oslo", "sku": "a", "items": 1}
        shop.orders.topic.append([json.dumps(order).encode()])
        shop.orders.drain()

    prices = [(0, 2), (60, SECRET), (5000, 3)]
    shop.prices.topic.append([json.dumps({"sku": "a", "since": at(s), "price": p}).encode() for s, p in prices])
    shop.prices.start()
    shop.orders.start()
    shop.prices.drain()
    for second in (30, 90):
        sell(second)
    shop.orders.archive()
    shop.recompute()
    sell(100)
    shop.orders.archive()
    sell(110)
    before = states_with_secret(shop.settings.folder)
    assert all(any(name in folder for folder in before) for name in ("by_time", "in_all", "realtime/1/orders")), before
    with pytest.raises(NotForgotten, match=r"1 micro-batch of orders above cut .* looked up records of erasure prices-erasure-1"):
        forget(lambda source: find_records.where(source, f"price = {SECRET}"))
    sell(120)  # the speed layer has read the new versions
    with pytest.raises(NotForgotten, match="then `tandem forget prices --finish --yes`"):
        forget()
    shop.orders.archive()
    shop.recompute()
    (done,) = forget()
    assert prove(shop.orders.tables, done.erasure, ()).whole
    assert states_with_secret(shop.settings.folder) == []
    sell(130)
    answer = given(Reader(shop.orders.tables).answer("in_all")).rows()
    assert [(row["worth"], row["n"]) for row in answer] == [(10 + 2, 6)]
    assert states_with_secret(shop.settings.folder) == []
