"""Each kind of column of a real PostgreSQL has the same value in an event, in every form in which Debezium writes it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import psycopg
import pytest

from tandem import Epoch, Event, Name, Scale, Source, Unit, Zone, debezium
from tandem.infra import kafka
from tandem.views.decode import decode
from tandem.views.source.decoder import Decoder
from tests.debezium.engine import capturing, comes, logging_server, table_of
from tests.postgres_server import PostgresServer
from tests.stack import consumed, new_topic


class Column(Event):
    """A row as each form with schemas gives it."""

    id: int
    committed: Annotated[datetime, Name("__source_ts_us")]
    op: Annotated[str, Name("__op")]
    deleted: Annotated[bool, Name("__deleted")]
    table: Annotated[str | None, Name("__table")] = None
    name: str | None = None
    n: Annotated[Decimal, Scale(2)] | None = None
    v: Annotated[Decimal, Scale(5)] | None = None
    at: datetime | None = None
    l: Annotated[datetime, Zone("UTC")] | None = None  # noqa: E741  the column's name
    d: date | None = None
    t: time | None = None
    i: timedelta | None = None
    b: bytes | None = None
    u: str | None = None
    a: list[int] | None = None
    f: float | None = None


class WithLarge(Column):
    """A row with a column that an update leaves alone."""

    large: str | None = None


class WithNumbers(Column):
    """A row with large numbers, whose placeholder is numbers, too."""

    integers: list[int] | None = None


class WithIds(Column):
    """A row with large ids, whose placeholder is an id."""

    ids: list[str] | None = None


class NumberColumn(Column):
    """A row as Debezium writes numbers of times without schemas."""

    l: Annotated[datetime, Epoch("us")] | None = None  # noqa: E741  the column's name
    t: Annotated[time, Unit("us")] | None = None
    i: Annotated[timedelta, Unit("us")] | None = None


ROW = {
    "id": 1,
    "name": "ann",
    "n": Decimal("-12.50"),
    "v": Decimal("3.14159"),
    "at": datetime(2026, 3, 1, 0, 2, 3, 456789, tzinfo=UTC),
    "l": datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=UTC),
    "d": date(2026, 2, 3),
    "t": 3723500000,
    "i": 93600000000,
    "b": b"\x00\xff",
    "u": "4a1d0d2c-3f5d-4e61-9a52-1b2d3c4e5f60",
    "a": [1, 2],
    "f": 0.1,
}
TABLES = """
CREATE TABLE kinds (id integer PRIMARY KEY, name text NOT NULL, n numeric(10, 2) NOT NULL, v numeric, at timestamptz, l timestamp,
    d date, t time, i interval, b bytea, u uuid, a integer[], f float8,
    large text, integers integer[], ids uuid[]);
ALTER TABLE kinds ALTER COLUMN integers SET STORAGE EXTERNAL, ALTER COLUMN ids SET STORAGE EXTERNAL;
INSERT INTO kinds SELECT 1, 'ann', -12.5, 3.14159, '2026-03-01 01:02:03.456789+01'::timestamptz,
    '2026-03-29 02:30:00.123456'::timestamp, '2026-02-03'::date,
    '01:02:03.5'::time, '1 day 02:00:00'::interval, '\\x00ff'::bytea, '4a1d0d2c-3f5d-4e61-9a52-1b2d3c4e5f60'::uuid,
    '{1,2}'::integer[], 0.1,
    string_agg(md5(n::text), ''), array_agg(n), array_agg(md5(n::text)::uuid) FROM generate_series(1, 1000) AS n;
CREATE TABLE done (id integer PRIMARY KEY);
"""
FORMS: dict[str, tuple[type[Event], dict[str, str]]] = {
    "precise": (Column, {}),
    "connect": (Column, {"time.precision.mode": "connect", "decimal.handling.mode": "string"}),
    "isostring": (Column, {"time.precision.mode": "isostring", "decimal.handling.mode": "string"}),
    "avro": (Column, {}),
    "avro_connect": (Column, {"time.precision.mode": "connect", "decimal.handling.mode": "string"}),
    "plain": (
        NumberColumn,
        {
            "decimal.handling.mode": "string",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
        },
    ),
}


IN_AVRO = ("avro", "avro_connect")


def decoder_of(schemas: Path | None) -> Decoder:
    """The decoder of changes in JSON; in Avro with a file of schemas."""
    if schemas is None:
        return debezium()
    return debezium(schemas=dict(enumerate(schemas.read_text().splitlines(), start=1)))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with logging_server() as running:
        yield running


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("form", FORMS)
def test_columns_have_their_values_in_each_form(
    server: PostgresServer, broker: kafka.BrokerConnection, tmp_path: Path, form: str
) -> None:
    event, options = FORMS[form]
    topic = new_topic(broker, partitions=1)
    options = {**options, "slot.name": f"slot_{form}", "publication.name": f"publication_{form}", "slot.drop.on.stop": "true"}
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS kinds, done")
        connection.execute(TABLES)
        tables = {"table.include.list": "public.kinds,public.done", "skipped.operations": "none"}
        schemas = "schemas" if form in IN_AVRO else ""
        with capturing(server, broker.address, topic.name, tmp_path, {**options, **tables}, schemas=schemas):
            assert comes(lambda: consumed(broker, topic), 60)
            connection.execute("UPDATE kinds SET name = 'bob'")
            connection.execute("DELETE FROM kinds")
            connection.execute("TRUNCATE kinds")
            connection.execute("INSERT INTO done VALUES (7)")
            assert comes(lambda: b"done" in (consumed(broker, topic)[-1].value or b""), 60)
            records = table_of(consumed(broker, topic), topic)
    decoder = decoder_of(tmp_path / schemas if schemas else None)
    source = Source(topic=topic.name, event=event, event_time="committed", decoder=decoder)
    result = decode(source, records)
    rows = result.events.to_pylist()
    assert [(row["op"], row["deleted"], row["table"], row["name"]) for row in rows] == [
        ("r", False, "kinds", "ann"),
        ("u", False, "kinds", "bob"),
        ("d", True, "kinds", None),
        ("c", False, "done", None),
    ]
    cut = {"l": ROW["l"].replace(microsecond=123000)} if form.endswith("connect") else {}  # type: ignore[attr-defined]
    expected: dict[str, Any] = {**ROW, **cut}
    assert {name: rows[0][name] for name in ROW} == expected
    assert {name: rows[1][name] for name in ROW} == {**expected, "name": "bob"}
    assert {name: rows[2][name] for name in ROW} == {**dict.fromkeys(ROW), "id": 1}
    assert result.skipped == 1, "the tombstone after the delete"
    assert [row["detail"] for row in result.rejects.to_pylist()] == [
        "op 't' is a truncate, which deletes all rows and names none"
    ]
    times = [row["committed"] for row in rows]
    assert times == sorted(times)
    if event is Column:
        large: dict[str, type[Event]] = {"large": WithLarge, "integers": WithNumbers, "ids": WithIds}
        for name, of in large.items():
            (unlogged, _) = decode(replace(source, event=of), records).rejects["detail"].to_pylist()
            assert unlogged.startswith(f"column {name} is large and was not changed")
