"""`tandem table rebuild` at a real broker: rows that a new snapshot did not bring leave the table by deletes in the log."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from fastavro import parse_schema, schemaless_writer

from tandem.cli.log.table.absent_rows import Deletes, absent_rows, append, appender_of, deletes
from tandem.cli.log.table.delete_forms import change_form
from tandem.cli.log.table.snapshots import newest_snapshot
from tandem.cli.log.table.table_log import TableLog, open_log
from tandem.infra import kafka, settings
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tests.cli.table.broker_world import NEW_YEAR, BrokerWorld, run_rebuild, world_of
from tests.stack import consumed, environ

pytestmark = pytest.mark.broker

CHANGES: Final = """
from datetime import datetime
from typing import Annotated

from tandem import Event, Name, Source, Table, View, count, debezium


class Product(Event):
    sku: str
    changed: Annotated[datetime, Name("__source_ts_us")]
    deleted: Annotated[bool, Name("__deleted")]
    lsn: Annotated[int, Name("__lsn")]
    op: Annotated[str, Name("__op")]
    price: int | None = None


products = Source(
    topic="TOPIC", event=Product, event_time="changed", decoder=DECODER, name="products", identity=("lsn", "sku", "op")
)
product = Table(products, key={"sku": "sku"}, gone="deleted", fields={"price": "price"}, order="ORDER")
deletes = View(products, where="op = 'd'", measures={"n": count()})
"""
OBJECTS: Final = """
from datetime import datetime

from tandem import Event, Source, Table


class Price(Event):
    sku: str
    since: datetime
    price: int
    deleted: bool = False
    state: str = "on"


prices = Source(topic="TOPIC", event=Price, event_time="since", name="prices")
price_of = Table(prices, key={"sku": "sku"}, gone="GONE")
"""
SCHEMA: Final = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {
            "name": "before",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Value",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "price", "type": ["null", "int"]}],
                },
            ],
        },
        {"name": "after", "type": ["null", "Value"]},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [
                    {"name": "ts_ms", "type": "long"},
                    {"name": "ts_us", "type": ["null", "long"]},
                    {"name": "lsn", "type": ["null", "long"]},
                    {"name": "table", "type": "string"},
                    {"name": "snapshot", "type": ["string", "null"]},
                ],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ],
}


@dataclass
class Database:
    """Changes of a table as Debezium writes them, in JSON without or with a schema, or in Avro."""

    form: str = "json"
    lsn: int = 0
    changes: list[tuple[bytes, bytes]] = field(default_factory=list)

    def change(self, op: str, sku: str, minute: int, price: int | None = 1, snapshot: str = "false") -> tuple[bytes, bytes]:
        us = int((NEW_YEAR + timedelta(minutes=minute)).timestamp() * 10**6)
        if snapshot == "false":
            self.lsn += 1
        row = {"sku": sku, "price": price}
        before, after = ({"sku": sku, "price": None}, None) if op == "d" else (None, row)
        source = {"ts_ms": us // 1000, "ts_us": us, "lsn": self.lsn, "table": "products", "snapshot": snapshot}
        change = {"before": before, "after": after, "source": source, "op": op, "ts_ms": us // 1000 + 7}
        key = json.dumps({"sku": sku}).encode()
        if self.form == "schema":
            wrapped = {"schema": {"type": "struct", "fields": []}, "payload": change}
            return json.dumps({"schema": None, "payload": {"sku": sku}}).encode(), json.dumps(wrapped).encode()
        if self.form == "avro":
            out = io.BytesIO()
            schemaless_writer(out, parse_schema(SCHEMA), change)
            return key, b"\0" + (7).to_bytes(4, "big") + out.getvalue()
        return key, json.dumps(change).encode()

    def snapshot(self, *skus: str, minute: int, last: bool = True) -> list[tuple[bytes, bytes]]:
        self.lsn += 1
        marks = ["true"] * len(skus)
        if last:
            marks[-1] = "last"
        return [self.change("r", sku, minute, 5, mark) for sku, mark in zip(skus, marks, strict=True)]


@pytest.fixture
def rebuild(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run the command; its document, or its error."""
    return partial(run_rebuild, capsys)


def decoder_of(form: str) -> str:
    return f"debezium(schemas={{7: {SCHEMA!r}}})" if form == "avro" else "debezium()"


@pytest.mark.each_run("json-log")
@pytest.mark.parametrize(
    ("form", "order"),
    [
        ("json", "log"),
        ("avro", "log"),
        ("schema", "time"),
        ("json", "time"),
    ],
)
def test_rows_that_a_snapshot_lacks_leave_the_table(form: str, order: str, tmp_path: Path, broker, rebuild) -> None:
    definitions = CHANGES.replace("DECODER", decoder_of(form)).replace("ORDER", order)
    world, database = world_of(tmp_path, broker, definitions, "products"), Database(form)
    world.send(*database.snapshot("a", "b", "c", "d", minute=0))
    world.send(database.change("c", "e", 1), database.change("u", "b", 2, 9), database.change("d", "c", 3), minute=3)
    world.trigger()
    world.recompute(world.end)
    # The slot is lost; b, d and e go meanwhile, f comes; then there is another snapshot, and changes after it.
    world.send(*database.snapshot("a", "f", minute=720), minute=721)
    world.send(database.change("c", "b", 730, 2), minute=730)
    before = world.rows("product")
    assert before == {"a": 5, "b": 2, "d": 5, "e": 1, "f": 5}
    plan = rebuild(world, "product", "--out", str(tmp_path / "keys"))
    assert (plan["absent"], plan["keys"], plan["appended"]) == (2, [{"sku": "d"}, {"sku": "e"}], 0)
    assert plan["snapshot"]["rows"] == 2
    assert plan["snapshot"]["began"] == "2026-01-01T12:00:00Z"
    assert (tmp_path / "keys").read_text() == '{"sku": "d"}\n{"sku": "e"}\n'
    assert world.rows("product") == before
    done = rebuild(world, "product", "--yes")
    assert (done["appended"], done["changed"]) == (2, 0)
    assert "answers count the whole log" in rebuild(world, "product", "--yes", "--within", "0.2")
    assert world.rows("product") == {"a": 5, "b": 2, "f": 5}
    world.recompute(world.end)
    assert world.rows("product") == {"a": 5, "b": 2, "f": 5}
    assert rebuild(world, "product")["absent"] == 0
    view = Connection(Store(world.tables, 3, 0))
    view.refresh()
    at = {row["sku"] for row in view.view("product").rows(at=NEW_YEAR + timedelta(minutes=10))}
    assert at == {"a", "b", "d", "e"}, "an earlier time has the rows"
    assert [row["n"] for row in view.view("deletes").rows()] == [3], "deletes are changes as any"


def world_with_lost_rows(tmp_path: Path, broker: kafka.BrokerConnection) -> tuple[BrokerWorld, Database]:
    """A table of a to h, and a complete snapshot that lacks all but a and b."""
    definitions = CHANGES.replace("DECODER", "debezium()").replace("ORDER", "log")
    world, database = world_of(tmp_path, broker, definitions, "products"), Database()
    world.send(*database.snapshot(*"abcdefgh", minute=0))
    world.send(*database.snapshot("a", "b", minute=60), minute=60)
    world.trigger()
    return world, database


def plan_of(world: BrokerWorld) -> tuple[TableLog, Deletes, dict[tuple[str, int], int]]:
    """What the command is about to append."""
    of = settings.load(world.folder, environ())
    log = open_log(of, world.tables, world.project.every_view["product"], kafka.connect(world.broker.address))  # type: ignore[arg-type]
    ends = log.ends()
    snapshot, brought = newest_snapshot(log, ends), log.nothing()
    for records in log.records(snapshot.firsts, ends):
        brought.add(log.keys_in(records))
    rows = absent_rows(log, Reader(world.tables), brought, ends)
    return log, deletes(log, rows, change_form(log, snapshot.sample)), dict(ends)


@pytest.mark.slow
def test_a_row_that_comes_back_before_its_delete_stays(tmp_path: Path, broker) -> None:
    world, database = world_with_lost_rows(tmp_path, broker)
    log, planned, ends = plan_of(world)
    assert planned.rows.keys() == [{"sku": sku} for sku in "cdefgh"]
    world.send(database.change("c", "d", 61, 8), database.change("u", "a", 61, 9), (None, b"not a change"), minute=61)
    with appender_of(log) as appender:
        assert append(log, appender, planned, ends) == 5
    assert world.rows("product") == {"a": 9, "b": 5, "d": 8}
    values = [json.loads(record.value) for record in consumed(broker, world.topic) if record.value != b"not a change"]
    assert sum(value["op"] == "d" for value in values) == 5, "what was refused at first is not in the log"


def test_an_interrupted_command_continues(tmp_path: Path, broker, rebuild) -> None:
    world, _ = world_with_lost_rows(tmp_path, broker)
    log, planned, ends = plan_of(world)
    part = planned.rows.take([0, 3])
    with appender_of(log) as appender:
        assert append(log, appender, Deletes(part, [planned.records[0], planned.records[3]]), ends) == 2
    world.trigger()
    plan = rebuild(world, "product", "--list", "1")
    assert (plan["absent"], plan["keys"]) == (4, [{"sku": "d"}])
    assert rebuild(world, "product", "--yes")["appended"] == 4
    assert world.rows("product") == {"a": 5, "b": 5}


def test_a_snapshot_that_is_not_complete_is_refused(tmp_path: Path, broker, rebuild) -> None:
    world, database = world_with_lost_rows(tmp_path, broker)
    world.send(*database.snapshot("a", minute=90, last=False), minute=90)
    world.trigger()
    assert rebuild(world, "product", "--yes") == (
        f"the snapshot of 2026-01-01T01:30:00Z is not complete: topic '{world.topic.name}' has 1 row of it, and not the last "
        "one; run this again when Debezium has sent it"
    )
    world.send(*database.snapshot("a", "c", minute=91), minute=91)  # it was started again
    world.trigger()
    assert rebuild(world, "product", "--yes")["appended"] == 6
    assert world.rows("product") == {"a": 5, "c": 5}


@pytest.mark.slow
def test_rows_of_a_partition_without_rows_of_the_snapshot_leave_too(tmp_path: Path, broker, rebuild) -> None:
    definitions = CHANGES.replace("DECODER", "debezium()").replace("ORDER", "log")
    world, database = world_of(tmp_path, broker, definitions, "products"), Database()
    world.send(*database.snapshot("a", "b", "d", "f", minute=0))
    world.send(*database.snapshot("a", minute=60), minute=60)
    world.send(database.change("c", "b", 61), minute=61)
    world.trigger()
    partitions = {record.key: record.partition for record in consumed(broker, world.topic)}
    assert len({partitions[json.dumps({"sku": sku}).encode()] for sku in "bdf"} - {partitions[b'{"sku": "a"}']}) == 1
    assert rebuild(world, "product", "--yes")["appended"] == 2
    assert world.rows("product") == {"a": 5, "b": 1}


def price(sku: str, minute: int, **others: Any) -> tuple[bytes, bytes]:
    since = (NEW_YEAR + timedelta(minutes=minute)).isoformat()
    return sku.encode(), json.dumps({"sku": sku, "since": since, "price": minute, **others}).encode()


@pytest.mark.slow
def test_a_table_of_json_objects_is_rebuilt_from_a_time_on(tmp_path: Path, broker, rebuild) -> None:
    world = world_of(tmp_path, broker, OBJECTS.replace("GONE", "deleted"), "prices")
    world.send(price("a", 1, note="\u00e9"), price("b", 2), price("c", 3), minute=5)
    world.send(price("b", 30), price("d", 40), minute=50)
    world.trigger()
    assert "do not say where a snapshot begins; name it with --from" in rebuild(world, "price_of")
    assert "nothing says that it is a snapshot" in rebuild(world, "price_of", "--from", "2026-01-01T03:00", "--yes")
    plan = rebuild(world, "price_of", "--from", "2026-01-01T00:50")
    assert (plan["keys"], plan["brought"], plan["snapshot"]["marked"]) == ([{"sku": "a"}, {"sku": "c"}], 2, False)
    begin = [
        f"--from={topic}/{number}:{offset}" for topic, at in plan["snapshot"]["from"].items() for number, offset in at.items()
    ]
    assert rebuild(world, "price_of", *begin)["keys"] == plan["keys"]
    assert rebuild(world, "price_of", "--from", "2026-01-01T00:50", "--yes")["appended"] == 2
    assert world.rows("price_of") == {"b": 30, "d": 40}
    sent = [json.loads(record.value) for record in consumed(broker, world.topic) if record.headers]
    assert sent == [
        {"sku": sku, "since": "2026-01-01T00:50:00Z", "price": minute, **note, "deleted": True}
        for sku, minute, note in sorted([("a", 1, {"note": "\u00e9"}), ("c", 3, {})], key=lambda row: sum(row[0].encode()) % 2)
    ]


@pytest.mark.slow
def test_a_condition_needs_the_fields_by_which_it_holds(tmp_path: Path, broker, rebuild) -> None:
    world = world_of(tmp_path, broker, OBJECTS.replace("GONE", "state = 'off'"), "prices")
    world.send(price("a", 1), price("b", 2), price("z", 70), minute=5)
    world.send(price("b", 30), minute=50)
    world.trigger()
    start = ("--from", "2026-01-01T00:50", "--yes")
    assert "name the fields of a delete with --set, such as --set state='\"deleted\"'" in rebuild(world, "price_of", *start)
    assert rebuild(world, "price_of", *start, "--set", "state") == (
        "invalid --set 'state'; expected FIELD=JSON, such as deleted=true"
    )
    assert rebuild(world, "price_of", *start, "--set", 'state="on"').startswith("deletes would not take out 2 of 2 rows, such as")
    later = rebuild(world, "price_of", *start, "--set", 'state="off"')
    assert later.startswith("deletes would not take out 1 of 2 rows, such as {'sku': 'z'}: their newest versions are later")
    assert world.rows("price_of") == {"a": 1, "b": 30, "z": 70}
    assert rebuild(world, "price_of", "--from", "2026-01-01T01:30", "--yes", "--set", 'state="off"').startswith("topic")
    world.send(price("b", 80), price("z", 90), minute=80)
    world.trigger()
    done = rebuild(world, "price_of", "--from", "2026-01-01T01:20", "--yes", "--set", 'state="off"')
    assert (done["appended"], done["keys"]) == (1, [{"sku": "a"}])
    assert world.rows("price_of") == {"b": 80, "z": 90}


@pytest.mark.parametrize(
    ("definitions", "table", "expected"),
    [
        (OBJECTS.replace(', gone="GONE"', ""), "price_of", "table 'price_of' has no `gone`, so no record takes a row out of it"),
        (OBJECTS.replace("GONE", "deleted"), "price_of_versions", "'price_of_versions' is a view, and only a table"),
        (OBJECTS.replace("GONE", "deleted"), "prices", "no view 'prices'; views: price_of"),
        (
            OBJECTS.replace("GONE", "deleted")
            .replace('name="prices"', 'name="prices", decoder=csv(columns=("sku", "since", "price", "deleted", "state"))')
            .replace("Source,", "Source, csv,"),
            "price_of",
            "source 'prices' reads neither debezium() nor json()",
        ),
    ],
)
def test_a_table_without_a_form_of_deletes_is_refused(
    definitions: str, table: str, expected: str, tmp_path: Path, *, broker: kafka.BrokerConnection, rebuild: Callable[..., Any]
) -> None:
    world = world_of(tmp_path, broker, definitions, "prices")
    assert expected in rebuild(world, table, "--from", "2026-01-01", "--yes")
    assert consumed(broker, world.topic) == []


def test_a_delete_that_is_a_duplicate_is_refused(tmp_path: Path, broker, rebuild) -> None:
    definitions = OBJECTS.replace("GONE", "deleted").replace(
        'name="prices"', 'name="prices", identity=("sku",), identity_spans="any_time"'
    )
    world = world_of(tmp_path, broker, definitions, "prices")
    world.send(price("a", 1), minute=5)
    world.send(price("b", 30), minute=50)
    world.trigger()
    assert rebuild(world, "price_of", "--from", "2026-01-01T00:50", "--yes").startswith(
        "1 delete would be a duplicate by the identity of source 'prices', sku, and would not count"
    )
    assert world.rows("price_of") == {"a": 1, "b": 30}
