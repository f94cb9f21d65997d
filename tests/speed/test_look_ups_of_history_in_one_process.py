"""Views find versions that `adopt` or `import` wrote as they find those of the topic: their answers agree with nested loops."""

import json
import random
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem.batch.adopt import adopt
from tandem.batch.adopt.adopt import AdoptRequest
from tandem.batch.transfer import export_archive, import_archive
from tests import one_process
from tests.batch.adopt.test_adopt import in_this_process
from tests.speed.test_look_ups_in_one_process import (
    OneOf,
    Shop,
    asked,
    order,
    price,
    seconds,
    shop_in,
)

NUMBERS = count(1)


def new_price(dice: random.Random, now: int) -> dict[str, Any]:
    """A price that differs from all others."""
    return {**json.loads(price(dice, now)), "price": next(NUMBERS)}


def step(shop: Shop, dice: random.Random, now: int) -> None:
    new = [json.dumps(new_price(dice, now)).encode() for _ in range(4)]
    shop.prices.topic.append(new, partition=dice.randrange(2))
    shop.orders.topic.append([order(dice, now) for _ in range(6)], partition=dice.randrange(2))


@pytest.mark.each_run("0")
@pytest.mark.parametrize("table_mb", [64, 0])
def test_look_ups_find_the_versions_of_an_imported_table(table_mb: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention has deleted the records that were exported, so the topics begin after them."""
    here, dice = shop_in(tmp_path / "here", monkeypatch, table_mb), random.Random(table_mb)
    for name in ("prices", "orders"):
        getattr(here, name).start()
    for number in range(3):
        step(here, dice, number * 500)
        here.prices.drain()
        here.orders.drain()
    here.orders.archive()
    export_archive.run(here.orders.tables, ["prices", "orders"], tmp_path / "export", say=print)
    for layer in (here.prices, here.orders):
        layer.topic.delete_below({number: offset for (_, number), offset in layer.topic.end.items()})
    step(here, dice, 1_500)

    settings = msgspec.structs.replace(here.settings, state=str(tmp_path / "there"))
    layers = {
        name: OneOf(here.orders.broker, layer.topic, settings, source=name, definitions=here.orders.definitions)
        for name, layer in (("prices", here.prices), ("orders", here.orders))
    }
    there = Shop(layers["prices"], layers["orders"])
    import_archive.run(settings, tmp_path / "export", ["prices", "orders"], now=here.orders.now, say=print)
    for layer in layers.values():
        layer.start()
    for number in range(4, 7):
        there.prices.drain()
        there.orders.drain()
        asked(there)
        there.orders.archive()
        there.recompute()
        assert asked(there) == 0
        step(there, dice, number * 500)
    there.prices.drain()
    there.orders.drain()
    asked(there)


IDENTITY = b'event_time="since")', b'event_time="since", identity=("sku", "since", "price", "deleted"))'
"""An identity, by which a price at the seam of history and topic counts once."""


@pytest.mark.each_run("64")
@pytest.mark.parametrize("table_mb", [64, 0])
def test_look_ups_find_the_versions_of_an_adopted_history(table_mb: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows come before the topic in the order of the log, so of equal times the topic's version is the later one."""
    dice = random.Random(table_mb)
    shop = shop_in(tmp_path, monkeypatch, table_mb)
    definitions = shop.orders.definitions.replace(*IDENTITY)
    rows = [new_price(dice, dice.randrange(900)) for _ in range(40)]
    history = [seconds(row, "since") for row in rows]
    layers = {name: replace(getattr(shop, name), definitions=definitions) for name in ("prices", "orders")}
    shop = Shop(layers["prices"], layers["orders"], history)
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "lake" / "prices.parquet")
    source = shop.prices.project.sources["prices"]
    done = adopt.run(one_process.run(shop.settings, "adopt"), source, AdoptRequest(tmp_path / "lake", {}), write=in_this_process)
    assert done.rows == len(rows)
    shop.prices.start()
    shop.orders.start()
    for number in range(3):
        step(shop, dice, number * 400)
        shop.prices.drain()
        shop.orders.drain()
        asked(shop)
        shop.orders.archive()
        shop.recompute()
        assert asked(shop) == 0
