"""Features of a training set are what nested loops over the log give, as it was at each row's time."""

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tandem.batch.archive import write_archive
from tandem.batch.points.fold_points import Known
from tandem.batch.points.points import points
from tandem.batch.points.spine import Spine
from tandem.batch.recompute import recompute
from tests.batch.shop import MemoryShop
from tests.samples import cases

DEFINITIONS = """
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from tandem import (
    Event, Scale, Source, View, all_time, calendar, count, derived, hopping, maximum, mean, rollup, session, total, tumbling
)


class Sale(Event):
    id: str
    at: datetime
    shop: str | None
    cents: int
    paid: Annotated[Decimal, Scale(2)]


sales = Source(topic="TOPIC", event=Sale, event_time="at", identity=("id",))
MEASURES = {"n": count(), "cents": total("cents"), "paid": total("paid"), "most": maximum("cents"), "each": derived("cents / n")}
hours = View(source=sales, keys={"shop": "shop"}, window=tumbling(hours=1), measures=MEASURES, where="cents <> 13")
ever = View(source=sales, keys={"shop": "shop"}, measures=MEASURES)
all_shops = View(source=sales, window=tumbling(hours=2), measures=MEASURES)
gaps = View(source=sales, keys={"shop": "shop"}, window=session(minutes=20), measures=MEASURES)
days = rollup(hours, keys=(), window=calendar("day", zone="UTC"), measures=("n", "cents", "paid", "most", "each"))
SOURCES = (sales,)
VIEWS = (hours, ever, all_shops, gaps, days)
"""
MEASURES = ("n", "cents", "paid", "most", "each")
START = datetime(2026, 3, 1, tzinfo=UTC)


def sale(dice: random.Random, number: int, minute: int) -> dict[str, Any]:
    return {
        "id": f"{number}",
        "at": (START + timedelta(minutes=minute, seconds=number % 60)).isoformat(),
        "shop": dice.choice(["a", "b", "c", None]),
        "cents": dice.randrange(-20, 60),
        "paid": f"{dice.randrange(500)}.{dice.randrange(100):02}",
    }


class Record:
    """A record of the log: where it is, when it was appended, and its sale."""

    def __init__(self, partition: int, offset: int, appended: int, sale: Mapping[str, Any]) -> None:
        self.place, self.appended, self.sale = (partition, offset), appended, sale
        self.at = int(datetime.fromisoformat(sale["at"]).timestamp() * 1_000_000)
        self.identity = (sale["id"], sale["at"])


def log_of(seed: int, number: int) -> dict[int, list[Record]]:
    """Sales that come late, and copies of them in either partition, some with another content and another shop."""
    dice = random.Random(seed)
    log: dict[int, list[Record]] = {0: [], 1: []}
    sales: list[dict[str, Any]] = []
    for step in range(number):
        minute = 3 * step - (dice.randrange(300) if dice.random() < 0.2 else 0)
        record = sale(dice, step, minute)
        if sales and dice.random() < 0.25:
            record = dict(dice.choice(sales)) | ({"cents": 7, "shop": dice.choice(["a", "b"])} if dice.random() < 0.5 else {})
        sales.append(record)
        partition = dice.randrange(2)
        log[partition].append(Record(partition, len(log[partition]), 1_000_000 * (1_772_323_200 + 180 * step), record))
    return log


def knowledge_at(log: Mapping[int, list[Record]], time: int, knowledge: Known) -> list[Record]:
    """The sales that count, of the records that a point knows."""
    there = [record for records in log.values() for record in records if knowledge == "event" or record.appended <= time]
    first: dict[object, Record] = {}
    for record in sorted(there, key=lambda record: record.place):
        first.setdefault(record.identity, record)
    return [record for record in first.values() if knowledge == "append" or record.at <= time]


HOUR = 3_600_000_000


def windows_of(view: str, records: list[Record]) -> list[tuple[int, int, list[Record]]]:
    """The windows of a key's sales: start, end, sales."""
    if view == "ever":
        return [(-(2**62), 2**62, records)]
    if view != "gaps":
        size = {"hours": HOUR, "all_shops": 2 * HOUR, "days": 24 * HOUR}[view]
        starts = {record.at // size * size for record in records}
        return [
            (start, start + size, [record for record in records if record.at // size * size == start]) for start in sorted(starts)
        ]
    sessions: list[tuple[int, int, list[Record]]] = []
    for record in sorted(records, key=lambda record: record.at):
        if sessions and record.at < sessions[-1][1]:
            start, end, some = sessions[-1]
            sessions[-1] = (start, max(end, record.at + HOUR // 3), [*some, record])
        else:
            sessions.append((record.at, record.at + HOUR // 3, [record]))
    return sessions


def truth(log: Mapping[int, list[Record]], view: str, shop: str | None, time: int, knowledge: Known) -> dict[str, Any] | None:
    records = knowledge_at(log, time, knowledge)
    if view in ("hours", "days"):
        records = [record for record in records if record.sale["cents"] != 13]
    if view not in ("all_shops", "days"):
        records = [record for record in records if record.sale["shop"] == shop]
    for start, end, some in windows_of(view, records):
        if some and start <= time < end:
            cents = [record.sale["cents"] for record in some]
            paid = sum((Decimal(record.sale["paid"]) for record in some), Decimal(0))
            return {"n": len(some), "cents": sum(cents), "paid": paid, "most": max(cents), "each": sum(cents) / len(some)}
    return None


def fill(shop: MemoryShop, log: Mapping[int, list[Record]]) -> None:
    shop.define(DEFINITIONS)
    steps = sorted((record for records in log.values() for record in records), key=lambda record: record.appended)
    for record in steps:
        value = json.dumps(record.sale).encode()
        shop.log.append([value], partition=record.place[0], at=datetime.fromtimestamp(record.appended // 1_000_000, UTC))
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)


def spine_of(seed: int, number: int) -> Spine:
    """Times at random, at an append, at an event or the begin of an hour, and a microsecond before these."""
    dice = random.Random(seed)
    steps = (1, 180, 60, 3600)
    seconds = [1_772_323_200 + dice.randrange(180 * 130) for _ in range(number)]
    times = [1_000_000 * (at - at % dice.choice(steps)) - dice.choice((0, 0, 1)) for at in seconds]
    shops = [dice.choice(["a", "b", "c", None, "unknown"]) for _ in range(number)]
    return Spine(pa.table({"shop": pa.array(shops, pa.string()), "label": list(range(number))}), np.array(times, dtype=np.int64))


@pytest.fixture
def memory_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryShop:
    return MemoryShop.of(tmp_path, monkeypatch)


@pytest.mark.each_run("append")
@pytest.mark.parametrize("knowledge", ["append", "event"])
def test_each_feature_is_what_nested_loops_give(memory_shop: MemoryShop, knowledge: Known) -> None:
    times = cases(50, bug=120, longer=120)
    log, spine = log_of(3, 110), spine_of(4, times)
    fill(memory_shop, log)
    views = ("hours", "ever", "all_shops", "gaps", "days")
    result = points(memory_shop.run("points"), spine, dict.fromkeys(views, MEASURES), knowledge=knowledge)
    assert result.rows.column("label").to_pylist() == list(range(times))
    there = 0
    for view in views:
        for row, time in zip(result.rows.to_pylist(), spine.times.tolist(), strict=True):
            wanted = truth(log, view, row["shop"], time, knowledge)
            features = {measure: row[f"{view}__{measure}"] for measure in MEASURES}
            assert features == (wanted or dict.fromkeys(MEASURES)), (view, row, time)
            there += wanted is not None
    assert there > times
    again = points(memory_shop.run("points"), spine, dict.fromkeys(views, MEASURES), knowledge=knowledge)
    assert again.rows.equals(result.rows)
