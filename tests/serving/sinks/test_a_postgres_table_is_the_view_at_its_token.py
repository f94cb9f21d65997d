"""A PostgreSQL sink's rows are the view's rows at its token, on a real server: any order of events, lost tables, two writers."""

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tandem.ledger.delta.errors import Conflict, Unreadable, Unwritable
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.sinks.changes_to_send import SinkStep, follow
from tandem.serving.sinks.postgres import TOKENS, PostgresTarget, connect_to, postgres_schema
from tandem.serving.sinks.sink_token import Stamp
from tandem.serving.sinks.target import SinkRefused
from tandem.views.errors import DefinitionError
from tandem.views.sinks.postgres_table import postgres_table
from tests.postgres_server import PostgresServer, postgres_server, reachable_folder
from tests.serving.sinks.past import EVERYTHING, MANY, Past, connected, roll_back, wanted_rows
from tests.serving.two_releases import applied, build, edited, promote
from tests.serving.world import DEFINITIONS, World, hit

IDENTITY = ["page", "window_start"]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with reachable_folder() as folder, postgres_server(folder / "pg") as running:
        yield running


@pytest.fixture
def database(server: PostgresServer) -> str:
    """The connection of an empty schema."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS mart CASCADE; CREATE SCHEMA mart")
    return f"{server.dsn} options='-c search_path=mart'"


def target_at(database: str, table: str = "sales") -> PostgresTarget:
    return connect_to("s", postgres_table(f"mart.{table}", dsn="$DSN"), {"DSN": database})


def sink(
    world: World, database: str, wanted: RowsWanted = EVERYTHING, view: str = "per_page", table: str = "sales"
) -> list[SinkStep]:
    """Follow once, in a connection of its own; then the table, as any client reads it, is the query."""
    published = connected(world, view)
    with closing(target_at(database, table)) as target:
        steps = list(follow(published, target, wanted))
        expected = wanted_rows(published, wanted)
        columns = ", ".join(f'"{name}"' for name in expected.column_names)
        rows = execute(database, f"SELECT {columns} FROM mart.{table}")
        assert sorted(map(_text, rows)) == sorted(_text(tuple(row.values())) for row in expected.to_pylist())
        (stored,) = execute(database, f"SELECT token FROM mart.{TOKENS} WHERE target = '{table}'")
        assert list(published.changes(stored[0].partition(" ")[0], where=wanted.where)) == []
    return steps


def _text(row: tuple[Any, ...]) -> str:
    """A row's values; times in one spelling, since two clients name UTC differently."""
    return repr([value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value for value in row])


def execute(database: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


@pytest.mark.slow
def test_a_postgres_table_follows_any_order_of_what_happens(database: str, tmp_path: Path) -> None:
    for seed in range(2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chance, past = random.Random(seed), Past(World(folder))
        execute(database, "DROP TABLE IF EXISTS mart.sales, mart.many")
        there = False
        for _ in range(12):
            match chance.choice(("world", "world", "world", "world", "truncated", "dropped", "foreign", "fewer")):
                case "world":
                    past.happen(chance)
                case "truncated" if there:
                    execute(database, "TRUNCATE mart.sales")
                case "dropped" if there:
                    execute(database, "DROP TABLE mart.many")
                case "foreign" if there:
                    execute(database, f"UPDATE mart.{TOKENS} SET token = 'of another installation'")
                    execute(database, "UPDATE mart.sales SET n = n + 1; DELETE FROM mart.many")
                case "fewer" if there:
                    execute(database, "ALTER TABLE mart.sales DROP COLUMN n")
                    execute(database, f"UPDATE mart.{TOKENS} SET token = 'of an earlier view'")
            if chance.random() < 0.7:
                sink(past.world, database)
                sink(past.world, database, MANY, table="many")
                there = True


def test_changes_alone_are_written_and_a_restart_writes_nothing(world: World, database: str) -> None:
    (first,) = sink(world, database)
    assert (first.rows, first.gone, first.compared) == (2, 0, True)
    world.append(0, hit("/b", 1))
    world.trigger()
    (second,) = sink(world, database)
    assert (second.rows, second.gone, second.compared) == (1, 0, False)
    assert sink(world, database) == []


def test_a_row_that_leaves_the_condition_is_deleted_by_its_null_key(world: World, database: str) -> None:
    few = RowsWanted(where="n < 2")
    sink(world, database, few)
    world.append(0, hit(None, 1))
    world.trigger()
    (step,) = sink(world, database, few)
    assert (step.rows, step.gone, step.compared) == (0, 1, False)


def test_a_promote_replaces_columns_and_keeps_rights(world: World, database: str) -> None:
    world.recompute(world.end)
    sink(world, database)
    execute(database, "DROP ROLE IF EXISTS reader; CREATE ROLE reader; GRANT SELECT ON mart.sales TO reader")
    ready = applied(world, edited("a measure renamed"))
    build(ready, ready.end)
    promote(ready)
    (step,) = sink(world, database)
    assert step.compared
    assert execute(database, "SELECT has_table_privilege('reader', 'mart.sales', 'SELECT')") == [(True,)]
    roll_back(world)
    sink(world, database)


def test_readers_see_no_empty_table_while_rows_are_replaced(world: World, database: str) -> None:
    sink(world, database)
    with psycopg.connect(database) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        before = reader.execute("SELECT 1").fetchone()
        with closing(target_at(database)) as target:
            target.token()
            rows = target.convert(wanted_rows(connected(world, "per_page"), EVERYTHING))
            target.replace(rows.slice(0, 1), IDENTITY, Stamp("token", 1))
        assert before == (1,)
        assert reader.execute("SELECT count(*) FROM mart.sales").fetchone() == (2,)


def test_the_second_of_two_connections_conflicts_and_compares(world: World, database: str) -> None:
    sink(world, database)
    with closing(target_at(database)) as target, closing(target_at(database)) as other:
        rows = target.convert(wanted_rows(connected(world, "per_page"), EVERYTHING))
        gone = rows.slice(0, 1).select(["page", "window_start"])
        assert target.token() == other.token()
        other.write(rows.slice(0, 0), gone, Stamp("another", 1))
        with pytest.raises(Conflict):
            target.write(rows, gone.slice(0, 0), Stamp("stale", 1))
    (step,) = sink(world, database)
    assert (step.rows, step.gone, step.compared) == (1, 0, True)


def test_other_keys_over_the_same_columns_get_an_index_of_their_own(world: World, database: str) -> None:
    sink(world, database)
    with closing(target_at(database)) as target:
        rows = target.convert(wanted_rows(connected(world, "per_page"), EVERYTHING))
        target.token()
        target.write(rows, rows.slice(0, 0).select(["page"]), Stamp("other keys", 1))
    indexes = execute(database, "SELECT indexdef FROM pg_indexes WHERE tablename = 'sales'")
    assert [each[0].partition(" USING ")[2] for each in indexes] == ["btree (page) NULLS NOT DISTINCT"]


def test_a_key_that_becomes_a_measure_costs_a_comparison(database: str, tmp_path: Path) -> None:
    views = """
fine = View(source=hits, keys={"page": "page", "odd": "bytes % 2"}, measures={"n": count()})
coarse = View(source=hits, keys={"page": "page"}, measures={"odd": maximum("bytes % 2"), "n": count()})
VIEWS = (fine, coarse, """
    world = World(tmp_path, definitions=DEFINITIONS.replace("VIEWS = (", views))
    world.append(0, hit("/a", 1), hit("/a", 2), hit(None, 2))
    world.trigger()
    for view, rows in (("fine", 3), ("coarse", 2), ("fine", 2)):
        (step,) = sink(world, database, view=view)
        assert (step.rows, step.compared) == (rows, True)


def test_two_first_writers_make_one_table(world: World, database: str) -> None:
    with closing(target_at(database)) as target, closing(target_at(database)) as other:
        rows = target.convert(wanted_rows(connected(world, "per_page"), EVERYTHING))
        assert (target.token(), other.token()) == (None, None)
        other.replace(rows, IDENTITY, Stamp("first", 1))
        with pytest.raises(Conflict):
            target.replace(rows.slice(0, 1), IDENTITY, Stamp("second", 1))
    assert execute(database, "SELECT count(*) FROM mart.sales") == [(rows.num_rows,)]


def test_a_step_that_fails_leaves_the_one_before(world: World, database: str, server: PostgresServer) -> None:
    sink(world, database)
    before = execute(database, f"SELECT * FROM mart.sales, mart.{TOKENS} ORDER BY 1")
    with closing(target_at(database)) as target:
        rows = target.convert(wanted_rows(connected(world, "per_page"), EVERYTHING))
        target.token()
        execute(database, f"ALTER TABLE mart.{TOKENS} ADD CHECK (token <> 'refused')")
        with pytest.raises(Unwritable, match="violates check constraint"):
            target.write(rows.slice(0, 0), rows.select(["page", "window_start"]), Stamp("refused", 1))
        assert execute(database, f"SELECT * FROM mart.sales, mart.{TOKENS} ORDER BY 1") == before
        server.kill()
        with pytest.raises(Unwritable):
            target.write(rows.slice(0, 0), rows.select(["page", "window_start"]), Stamp("lost", 1))
        server.start()
    assert execute(database, f"SELECT * FROM mart.sales, mart.{TOKENS} ORDER BY 1") == before
    assert sink(world, database) == []


def test_tables_of_others_are_refused_and_stay(world: World, database: str) -> None:
    execute(database, "CREATE TABLE mart.sales (n int); INSERT INTO mart.sales VALUES (7)")
    with pytest.raises(SinkRefused, match=r"table mart\.sales has rows that no sink has written"):
        sink(world, database)
    assert execute(database, "SELECT n FROM mart.sales") == [(7,)]
    execute(database, "DELETE FROM mart.sales")
    with pytest.raises(SinkRefused, match=r"table mart\.sales lacks column 'page'; expected text"):
        sink(world, database)
    assert execute(database, "SELECT column_name FROM information_schema.columns WHERE table_name = 'sales'") == [("n",)]


def test_an_empty_table_of_the_right_columns_is_taken(world: World, database: str) -> None:
    types = postgres_schema("s", wanted_rows(connected(world, "per_page"), EVERYTHING).schema)
    columns = ", ".join(f'"{column.name}" {column.metadata[b"postgres"].decode()}' for column in types)
    execute(database, f"CREATE TABLE mart.sales ({columns})")
    (step,) = sink(world, database)
    assert step.rows == 2


def test_missing_rights_and_servers_are_one_sentence(world: World, database: str, server: PostgresServer) -> None:
    execute(database, "DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA mart TO guest")
    guest = database.replace("user=tandem", "user=guest")
    with pytest.raises(Unwritable, match=r"table mart\.sales of PostgreSQL: permission denied for schema mart"):
        sink(world, guest)
    with pytest.raises(Unreadable, match="cannot connect to PostgreSQL"):
        target_at(f"host={server.folder}/absent")
    with pytest.raises(SinkRefused, match="the environment has no variable DSN"):
        connect_to("s", postgres_table("sales", dsn="$DSN"), {})


def test_every_type_comes_back_as_it_was_sent(database: str) -> None:
    rows = pa.table(
        {
            "key": pa.array(["a", None, 'q"%', ""]),
            "yes": pa.array([True, False, None, True]),
            "huge": pa.array([10**75, -(10**75), None, 0], pa.decimal256(76, 0)),
            "real": pa.array([0.1, float("nan"), float("-inf"), 1e300]),
            "bytes": pa.array([b"\x00\xff", b"", None, b"a"]),
            "day": pa.array([0, 1, None, -700000], pa.date32()),
            "at": pa.array([1, -(10**15), None, 0], pa.timestamp("us", "UTC")),
            "list": pa.array([[1.0, 1e300, 0.1], [], None, [5e-324]]),
            "struct": pa.array([{"b": 1.0, "a": "x"}, {"b": None, "a": None}, None, {"b": -0.0, "a": "ü"}]),
        }
    )
    with closing(target_at(database)) as target:
        converted = target.convert(rows)
        target.token()
        target.replace(converted, IDENTITY, Stamp("t1", 1))
        assert repr(target.content(converted.schema, ["key"]).to_pylist()) == repr(converted.to_pylist())
        target.write(converted, converted.slice(0, 0).select(["key", "at"]), Stamp("t2", 1))
        assert target.token() == "t2"
        assert sorted(map(repr, target.content(converted.schema, ["key"]).to_pylist())) == sorted(
            map(repr, converted.to_pylist())
        )
        with pytest.raises(SinkRefused, match="cannot hold a value: PostgreSQL text fields cannot contain NUL"):
            target.replace(converted.set_column(0, converted.schema.field(0), pa.array(["\x00"] * 4)), IDENTITY, Stamp("t3", 1))
    with pytest.raises(SinkRefused, match=r"PostgreSQL has no type for column 'span', duration\[us\]"):
        postgres_schema("s", pa.schema([("span", pa.duration("us"))]))


@pytest.mark.parametrize(
    ("table", "dsn", "reason"),
    [
        ("a b", "$DSN", "expected a name such as 'sales'"),
        ("sales", "$a b", "expected '[$]NAME' of a variable"),
        ("sales", "", "expected '[$]NAME' of a variable"),
        ("sales", "postgresql://u:secret@db/x", "dsn has a password"),
        ("sales", "host=db password = x", "dsn has a password"),
    ],
)
def test_definitions_have_no_password(table: str, dsn: str, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason) as raised:
        postgres_table(table, dsn=dsn)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("dsn", "reason"),
    [
        ("postgresql//u:secret@db/x", "variable DSN is not a connection such as"),
        ("host=db secret", "variable DSN is not a connection such as"),
        ("postgresql://u:%secret@db/x", "variable DSN is not a connection such as"),
        ("postgresql://u:pass@secret@db/x", "variable DSN has an @ in its host; in a password write it as %40"),
    ],
)
def test_a_connection_that_libpq_does_not_read_stays_secret(dsn: str, reason: str) -> None:
    with pytest.raises(SinkRefused, match=reason) as refused:
        connect_to("s", postgres_table("sales", dsn="$DSN"), {"DSN": dsn})
    assert "secret" not in str(refused.value)
