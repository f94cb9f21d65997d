"""A real PostgreSQL loses Debezium's replication slot; after another snapshot `tandem table rebuild` makes the table equal."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from tandem.infra import kafka
from tests.cli.table.broker_world import BrokerWorld, run_rebuild, world_of
from tests.debezium.engine import capturing, comes, logging_server, streams
from tests.postgres_server import PostgresServer
from tests.stack import consumed, new_topic

KEYS: Final = 400
OPTIONS: Final = {"table.include.list": "public.stock"}
DEFINITIONS: Final = """
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from tandem import Event, Name, Scale, Source, Table, debezium


class Stock(Event):
    sku: int
    committed: Annotated[datetime, Name("__source_ts_us")]
    op: Annotated[str, Name("__op")]
    deleted: Annotated[bool, Name("__deleted")]
    lsn: Annotated[int, Name("__lsn")]
    price: Annotated[Decimal, Scale(2)] | None = None
    name: str | None = None


source = Source(
    topic="TOPIC", event=Stock, event_time="committed", decoder=debezium(DECODER), name="stocks", identity=("lsn", "sku", "op")
)
stock = Table(source, key={"sku": "sku"}, gone="deleted", fields={"price": "price", "name": "name"}, order="ORDER")
"""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with logging_server() as running:
        with psycopg.connect(running.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE stock (sku integer PRIMARY KEY, price numeric(10, 2) NOT NULL, name text)")
        yield running


def write(server: PostgresServer, chosen: random.Random, statements: int) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for _ in range(statements):
            key, price = chosen.randrange(KEYS), chosen.randrange(10**6) / 100
            statement = chosen.choices(
                (
                    "INSERT INTO stock VALUES (%(key)s, %(price)s, NULL) ON CONFLICT (sku) DO UPDATE SET price = excluded.price",
                    "UPDATE stock SET name = 'é ' || price WHERE sku = %(key)s",
                    "DELETE FROM stock WHERE sku = %(key)s",
                ),
                [3, 1, 2],
            )[0]
            connection.execute(statement, {"key": key, "price": price})


def lose(server: PostgresServer, folder: Path) -> None:
    """Drop the slot, and the engine's offsets with it."""
    assert comes(lambda: not streams(server), 60)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    (folder / "offsets").unlink()


def follow(server: PostgresServer, broker: Any, topic: kafka.Topic, place: tuple[Path, str], chosen: random.Random) -> None:
    """Capture a snapshot, and random statements after it, to the last one."""
    with capturing(server, broker.address, topic.name, place[0], OPTIONS, schemas=place[1]):
        assert comes(lambda: streams(server), 90)
        write(server, chosen, 300)
        mark = f"mark {chosen.random()}"
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("INSERT INTO stock VALUES (-1, 0, %s) ON CONFLICT (sku) DO UPDATE SET name = %s", (mark, mark))
        assert comes(lambda: any(mark.encode() in (record.value or b"") for record in consumed(broker, topic)), 60)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize(("form", "order"), [("json", "log"), ("avro", "time")])
def test_the_table_is_the_database_again(
    form: str,
    order: str,
    server: PostgresServer,
    tmp_path: Path,
    *,
    broker: kafka.BrokerConnection,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen, topic, folder = random.Random(7), new_topic(broker), tmp_path / "engine"
    folder.mkdir()
    place = (folder, "schemas" if form == "avro" else "")
    write(server, chosen, 1000)
    follow(server, broker, topic, place, chosen)
    lose(server, folder)
    write(server, chosen, 1000)
    follow(server, broker, topic, place, chosen)
    schemas = dict(enumerate((folder / "schemas").read_text("utf-8").splitlines(), 1)) if form == "avro" else {}
    decoder = f"schemas={schemas!r}" if schemas else ""
    text = DEFINITIONS.replace("DECODER", decoder).replace("ORDER", order)
    world = world_of(tmp_path, broker, text, "stocks", topic)
    with psycopg.connect(server.dsn) as connection:
        expected = dict(connection.execute("SELECT sku, price::text FROM stock").fetchall())
    before = world.rows("stock")
    assert before.keys() > expected.keys(), "rows that were deleted meanwhile stay"
    stale = before.keys() - expected.keys()
    plan = run_rebuild(capsys, world, "stock", "--list", "1000")
    assert {key["sku"] for key in plan["keys"]} == stale
    done = run_rebuild(capsys, world, "stock", "--yes")
    assert (done["appended"], done["changed"]) == (len(stale), 0)
    equal_to(world, expected)
    world.recompute(world.end)
    equal_to(world, expected)
    assert run_rebuild(capsys, world, "stock", "--yes")["appended"] == 0
    sys.stdout.write(f"\n{form}, {order}: {len(before)} rows, {len(stale)} taken out, {len(expected)} left\n")


def equal_to(world: BrokerWorld, expected: dict[int, Any]) -> None:
    assert world.rows("stock") == expected
