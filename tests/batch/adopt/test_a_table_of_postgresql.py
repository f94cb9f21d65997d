"""A table of a real PostgreSQL is history: its rows are read once and exactly, and what cannot be exact is refused by name."""

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from tandem.batch.adopt import adopt
from tandem.batch.adopt.adopt import AdoptRequest
from tandem.batch.adopt.database import DatabaseAddress, history_table
from tandem.batch.adopt.plan_adoption import plan
from tandem.batch.adopt.table import NotAdopted
from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.session import BatchRun
from tandem.batch.runtime.spark_jobs import TaskFailed
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.log.archive_runs import ArchiveLedger
from tests.batch.adopt.test_adopt import counted, sale
from tests.batch.shop import Shop, rows_of
from tests.postgres_server import PostgresServer, postgres_server, reachable_folder
from tests.stack import environ, new_topic

SECRET = "open sesame &%?"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with reachable_folder() as folder, postgres_server(folder / "server", port=port) as running:
        yield running


@pytest.fixture
def database(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A database with the sales 0 to 39 in the table Sales of the schema shop."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        connection.execute("CREATE SCHEMA shop")
        connection.execute('CREATE TABLE shop."Sales" (id text, at timestamptz, shop varchar(20), cents bigint)')
        insert(connection, range(40))
        yield connection


@pytest.fixture
def real_shop(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> Shop:
    assert spark is not None
    return Shop.open(broker, new_topic(broker), tmp_path)


def insert(connection: psycopg.Connection[Any], numbers: range) -> None:
    with connection.cursor() as cursor:
        rows = [tuple(sale(number).values()) for number in numbers]
        cursor.executemany('INSERT INTO shop."Sales" VALUES (%s, %s, %s, %s)', rows)


def address(server: PostgresServer, table: str = "shop.Sales") -> str:
    return f"postgresql://tandem@127.0.0.1:{server.port}/postgres?table={table}"


def adopt_table(shop: Shop, table: str) -> adopt.AdoptResult:
    return adopt.run(shop.run("adopt"), shop.project().sources["sales"], AdoptRequest(table, {}))


def kill(shop: Shop, table: str, step: str, of: Any, patch: pytest.MonkeyPatch) -> None:
    """An adoption that ends just before this write."""

    def killed(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with patch.context() as patched:
        patched.setattr(of, step, killed)
        with pytest.raises(KeyboardInterrupt):
            adopt_table(shop, table)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_rows_are_adopted_once_and_other_rows_are_refused(
    server: PostgresServer, database: psycopg.Connection[Any], real_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, table = real_shop, address(server)
    planned = plan(shop.run("adopt"), shop.project().sources["sales"], AdoptRequest(table, {}))
    assert (planned.rows, planned.refusal, planned.rejects) == (40, None, {})
    assert planned.read > 0
    kill(shop, table, "intend", ArchiveLedger, monkeypatch)
    kill(shop, table, "add_files", delta_commits, monkeypatch)
    assert adopt_table(shop, table).rows == 0, "the next run finishes the killed one"
    assert adopt_table(shop, table).rows == 0
    live = [json.dumps(sale(number)).encode() for number in range(30, 60)]
    shop.sell({0: live[::2], 1: live[1::2]})
    rows = counted(shop)["per_hour"]
    assert (sum(row["n"] for row in rows), sum(row["cents"] for row in rows)) == (60, sum(sale(n)["cents"] for n in range(60)))
    insert(database, range(40, 41))
    with pytest.raises(NotAdopted, match=r"has 41 rows with hash .*, and 40 rows with hash .* were adopted.* no versions"):
        adopt_table(shop, table)
    archived = rows_of(shop, shop.tables.archive("sales"))
    headers = {header["value"].decode() for row in archived["headers"].to_pylist() for header in row or ()}
    assert headers == {f"postgresql://127.0.0.1:{server.port}/postgres?table=shop.Sales"}


@pytest.mark.slow
@pytest.mark.spark
def test_values_are_read_as_they_are(
    server: PostgresServer, database: psycopg.Connection[Any], spark: SparkSession, tmp_path: Path
) -> None:
    """The text of a value whose type Spark would cut, round or refuse."""
    values = {
        "a": ("numeric", "123456789012345678901234567890.1234567890123456789"),
        "b": ("numeric(20,2)", "123456789012345678.25"),
        "c": ("timestamptz", "2026-03-01 01:02:03.456789+01"),
        "d": ("timestamp", "2026-03-29 02:30:00"),
        "e": ("jsonb", '{"k": 1}'),
        "f": ("uuid", "4a1d0d2c-3f5d-4e61-9a52-1b2d3c4e5f60"),
        "g": ("interval", "1 day 02:00:00"),
        "h": ("bigint[]", "{1,2}"),
        "i": ("inet", "10.0.0.1"),
        "j.k": ("money", "12.5"),
    }
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _) in values.items())
    database.execute(f"CREATE TABLE shop.kinds ({columns})")
    database.execute("INSERT INTO shop.kinds VALUES (" + ", ".join(f"'{text}'" for _, text in values.values()) + ")")
    run = BatchRun(Settings(state=str(tmp_path)), "adopt", now=lambda: datetime.now(UTC), say=print, environ=environ())
    with pytest.raises(TaskFailed, match=r"relation .* does not exist"), history_table(run, address(server, "shop.none")):
        pass
    with history_table(run, address(server, "shop.kinds")) as table:
        (row,) = table.rows(spark, ["rows"]).collect()
    assert row["a"] == values["a"][1]
    assert str(row["b"]) == values["b"][1]
    assert row["c"].astimezone().timestamp() == 1772323323.456789
    assert str(row["d"]) == "2026-03-29 02:30:00"
    assert (row["e"], row["f"], row["g"], row["h"], row["i"], row["j.k"]) == (
        '{"k": 1}',
        values["f"][1],
        "1 day 02:00:00",
        [1, 2],
        "10.0.0.1/32",
        "$12.50",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("postgresql://tandem:secret@db/shop?table=t", "has a password"),
        ("postgresql://db/shop?table=t&password=secret", "has a password"),
        ("$NO_SUCH?table=t", "the environment has no variable NO_SUCH"),
        ("$SHOP_DB", "expected postgresql://HOST"),
        ("postgresql://db/shop", "expected postgresql://HOST"),
        ("postgresql:///shop?table=t", "expected postgresql://HOST"),
        ("postgresql://db?table=t", "expected postgresql://HOST"),
        ("postgresql://db/?table=t", "expected postgresql://HOST"),
        ("jdbc:mysql://db/shop?table=t", "expected postgresql://HOST"),
    ],
)
def test_addresses_are_refused_without_their_password(text: str, sentence: str) -> None:
    with pytest.raises(NotAdopted, match=sentence) as refused:
        DatabaseAddress.parse(text, {"SHOP_DB": "postgresql://tandem:secret@db/shop"})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "stored",
    [
        "postgresql://tandem:open%20sesame%20%26%25%3F@db:5433/shop?sslmode=require",
        "jdbc:postgresql://db:5433/shop?user=tandem&password=open+sesame+%26%25%3F&sslmode=require",
    ],
)
def test_a_login_comes_from_the_environment_and_goes_nowhere_else(stored: str) -> None:
    found = DatabaseAddress.parse("$SHOP_DB?table=shop.Sa%22les", {"SHOP_DB": stored})
    assert found.login == {"user": "tandem", "password": SECRET}
    assert found.url == "jdbc:postgresql://db:5433/shop?sslmode=require"
    assert found.name == 'postgresql://db:5433/shop?table=shop.Sa"les'
    assert found.identifier == '"shop"."Sa""les"'
    assert "sesame" not in repr(found)
