"""A table of change events equals SELECT of the database that they are of, after every micro-batch and recompute.

Statements are random; some transactions have one commit time for several changes of a row, and the database's clock is set back.
The oracle is the database itself: SQLite executes the statements, and each change is written as Debezium writes it.
"""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import settings

from tandem.serving.connection import Connection
from tandem.serving.memory.store import MEMORY, Store
from tests.samples import LONGER
from tests.serving.world import World

DEFINITIONS = """
from datetime import datetime
from typing import Annotated

from tandem import Event, Name, Source, Table, debezium


class Product(Event):
    sku: str
    changed: Annotated[datetime, Name("__source_ts_us")]
    deleted: Annotated[bool, Name("__deleted")]
    price: int | None = None
    shop: str | None = None


products = Source(topic="products", event=Product, event_time="changed", decoder=debezium(before=True))
FIELDS = {"price": "price", "shop": "shop"}
product = Table(products, key={"sku": "sku"}, gone="deleted", fields=FIELDS, order="log")
"""
STEPS = 600 if LONGER else 40
NOON_US = 1_793_534_400_000_000
Row = dict[str, Any]


class Shop:
    """A database with one table, and the change events of its statements."""

    def __init__(self, dice: Random) -> None:
        self.dice, self.clock, self.drawn = dice, NOON_US, {"clock set back": 0, "row changed twice": 0, "key changed": 0}
        self.database = sqlite3.connect(":memory:")
        self.database.execute("CREATE TABLE product (sku TEXT PRIMARY KEY, price INT, shop TEXT)")

    def rows(self) -> dict[str, Row]:
        cursor = self.database.execute("SELECT sku, price, shop FROM product")
        return {sku: {"sku": sku, "price": price, "shop": shop} for sku, price, shop in cursor}

    def transaction(self) -> Iterator[tuple[str, bytes]]:
        """The key and the event of each change of a transaction, which commits at one time."""
        back = self.dice.random() < 0.1
        self.drawn["clock set back"] += back
        self.clock += -5_000_000 if back else self.dice.choice((0, 1, 1_000_000))
        changed = set[str]()
        for _ in range(self.dice.randrange(1, 6)):
            for before, after in self.statement():
                key = (after or before or {})["sku"]
                self.drawn["row changed twice"] += key in changed
                changed.add(key)
                op = "d" if after is None else "c" if before is None else "u"
                source = {"ts_us": self.clock, "table": "product"}
                yield key, json.dumps({"before": before, "after": after, "source": source, "op": op}).encode()
        self.database.commit()

    def statement(self) -> Iterator[tuple[Row | None, Row | None]]:
        """Execute a random statement; the rows before and after of each row that it changes."""
        before, dice = self.rows(), self.dice
        sku, price = f"sku{dice.randrange(8)}", dice.choice((None, dice.randrange(100)))
        match dice.choice(("insert", "update", "update", "delete", "all", "rename")):
            case "insert":
                self.database.execute("INSERT OR REPLACE INTO product VALUES (?, ?, ?)", (sku, price, dice.choice("ab")))
            case "update":
                self.database.execute("UPDATE product SET price = ? WHERE sku = ?", (price, sku))
            case "all":
                self.database.execute("UPDATE product SET price = price + 1 WHERE shop = 'a'")
            case "delete":
                self.database.execute("DELETE FROM product WHERE sku = ?", (sku,))
            case _ if f"{sku}x" not in before and sku in before:
                self.database.execute("UPDATE product SET sku = ? WHERE sku = ?", (f"{sku}x", sku))
                self.drawn["key changed"] += 1
        after = self.rows()
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                yield before.get(key), after.get(key)


def test_a_table_is_the_database_at_every_position(tmp_path: Path) -> None:
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    print(f"{seed=}")  # noqa: T201 - pytest shows it if this fails
    dice = Random(seed)
    shop, world = Shop(dice), World(tmp_path, definitions=DEFINITIONS, source="products")
    views = [Connection(Store(world.tables, 3, memory)) for memory in (MEMORY, 0)]
    for _ in range(STEPS):
        for key, event in shop.transaction():
            world.append(sum(key.encode()) % 2, event)
        if world.end == world.writer.end:
            continue  # no statement has changed a row
        world.trigger()
        if dice.random() < 0.1:
            world.recompute(world.writer.end)
        for view in views:
            view.refresh()
            rows = {row["sku"]: {name: row[name] for name in ("sku", "price", "shop")} for row in view.view("product").rows()}
            assert rows == shop.rows()
    print(f"{shop.drawn}")  # noqa: T201 - how many hard cases were drawn
    assert min(shop.drawn.values()) > 1
