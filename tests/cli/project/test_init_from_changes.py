"""`init --from` changes that Debezium captured: the row is the event, and a table has its key, by each form of the messages."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.infra import kafka
from tandem.views.composite.table import Table
from tandem.views.project.project import load
from tandem.views.source.event import event_fields
from tests.cli.project import test_init_from_a_topic as of_topic
from tests.cli.project.test_init_from_a_topic import address, begin, run_project
from tests.schema_server import SchemaServer
from tests.stack import new_topic
from tests.views.source.formats import test_debezium as in_json
from tests.views.source.formats import test_debezium_in_avro as in_avro

WITH_SCHEMA = {
    "id": ("int64", False),
    "changed": ("timestamp[us, tz=UTC]", False),
    "op": ("string", False),
    "deleted": ("bool", False),
    "lsn": ("int64", False),
    "name": ("string", True),
    "n": ("decimal128(38, 2)", True),
    "v": ("decimal128(38, 9)", True),
    "l": ("timestamp[us, tz=UTC]", True),
    "d": ("date32[day]", True),
    "t": ("int64", True),
    "i": ("int64", True),
    "at": ("timestamp[us, tz=UTC]", True),
    "u": ("string", True),
    "b": ("binary", True),
    "na": ("list<item: decimal128(38, 3)>", True),
}


login, registry = of_topic.login, of_topic.registry


def columns(folder: Path, source: str) -> dict[str, tuple[str, bool]]:
    return {field.name: (str(field.arrow), field.optional) for field in event_fields(load(folder).sources[source].event)}


def table_of(folder: Path, document: dict[str, Any]) -> Table:
    table = load(folder).every_view[document["view"]]
    assert isinstance(table, Table)
    return table


def changes(*, schema: bool) -> list[tuple[bytes, bytes]]:
    """Keys and values: a row that is created and updated, and another row that is deleted."""
    row = in_json.ROW if schema else in_json.PLAIN
    keys = [in_json.key(schema=schema, id=number) for number in (1, 1, 7)]
    gone = in_json.envelope("d", schema=schema, before={**row, "id": 7})
    return list(zip(keys, [in_json.envelope(op, schema=schema) for op in ("c", "u")] + [gone], strict=True))


def send(connection: kafka.BrokerConnection, topic: kafka.Topic, pairs: list[tuple[bytes, bytes]]) -> None:
    with kafka.Sender(connection.address) as sender:
        for key, value in pairs:
            sender.send_as(topic.name, 0, kafka.Record(1_795_993_421_965, key, value))


@pytest.mark.parametrize("schema", [True, False], ids=["with schema", "without"])
def test_a_file_of_changes_begins_with_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], schema: bool) -> None:  # noqa: FBT001
    (tmp_path / "products.jsonl").write_bytes(b"".join(value + b"\n" for _, value in changes(schema=schema)))
    document = begin(tmp_path / "shop", capsys, "--from", str(tmp_path / "products.jsonl"))
    assert (document["source"], document["view"]) == ("products", "product")
    tried = run_project(tmp_path / "shop", document, capsys, "../products.jsonl")
    assert [(row["id"], row["name"]) for row in tried["rows"]] == [(1, "ann")]
    found = columns(tmp_path / "shop", "products")
    assert found == {**WITH_SCHEMA, **({} if schema else {name: found[name] for name in ("d", "t", "i", "v", "b")})}
    text = (tmp_path / "shop" / "definitions.py").read_text()
    assert "# No record says which columns are the primary key: check this guess." in text
    assert ('Zone("UTC")' in text) == schema
    table = table_of(tmp_path / "shop", document)
    assert (table.keys, load(tmp_path / "shop").sources["products"].identity) == ({"id": "id"}, ("lsn", "id", "op"))
    assert "na" not in table.measures, "no column of a table is a list"


@pytest.mark.slow
def test_a_file_with_another_zone_and_the_columns_names_of_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"order": 1, "changed": "x", "op": "y", "class": 7}
    lines = [json.dumps({"op": "c", "before": None, "after": row, "source": {"ts_ms": 1795993421914}}) for _ in range(2)]
    (tmp_path / "orders.jsonl").write_text("\n".join(lines))
    document = begin(tmp_path / "shop", capsys, "--from", str(tmp_path / "orders.jsonl"), "--zone", "Europe/Oslo")
    run_project(tmp_path / "shop", document, capsys, "../orders.jsonl", tests=True)
    assert columns(tmp_path / "shop", "orders").keys() == {"order", "changed_2", "op_2", "deleted", "changed", "op", "class_"}
    source = load(tmp_path / "shop").sources["orders"]
    assert (source.event_time, source.identity) == ("changed_2", ())
    assert table_of(tmp_path / "shop", document).keys == {"order": '"order"'}


def test_what_only_looks_like_a_change_is_read_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "moves.jsonl").write_text('{"op": "c", "at": "2026-11-01T12:00:00Z"}\n' * 3)
    document = begin(tmp_path / "shop", capsys, "--from", str(tmp_path / "moves.jsonl"))
    assert "debezium" not in (tmp_path / "shop" / "definitions.py").read_text()
    assert document["source"] == "moves"


@pytest.mark.parametrize("form", ["json", "avro"])
def test_a_topic_of_changes_has_the_key_of_its_records(
    tmp_path: Path, login: kafka.BrokerConnection, registry: SchemaServer, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    topic, folder = new_topic(login, partitions=1), tmp_path / "shop"
    options = ["--registry", registry.address] if form == "avro" else []
    pairs = changes(schema=True)
    if form == "avro":
        for number, schema in in_avro.SCHEMAS.items():
            registry.add(number, schema)
        values = [in_avro.change(), in_avro.change("u"), in_avro.change("d", row={**in_json.ROW, "id": 7})]
        pairs = [(in_avro.frame(8, {"id": number}), value) for number, value in zip((1, 1, 7), values, strict=True)]
    send(login, topic, pairs)
    document = begin(folder, capsys, "--from", address(login, topic), *options)
    text = (folder / "definitions.py").read_text()
    assert "check this guess" not in text
    assert ("debezium(registry=" in text) == (form == "avro")
    events = next(name for name in document["files"] if name.endswith((".jsonl", ".records")))
    tried = run_project(folder, document, capsys, events)
    assert [(row["id"], row["name"]) for row in tried["rows"]] == [(1, "ann")]
    assert table_of(folder, document).keys == {"id": "id"}
    assert load(folder).sources[document["source"]].topic == topic.name
    assert columns(folder, document["source"])["n"] == ("decimal128(38, 2)", True)


def test_a_subject_of_changes_needs_no_record(tmp_path: Path, registry: SchemaServer, capsys: pytest.CaptureFixture[str]) -> None:
    registry.add(7, in_avro.ENVELOPE)
    registry.add("kinds-value/latest", in_avro.ENVELOPE)
    registry.schemas["kinds-value/latest"]["id"] = 7
    document = begin(tmp_path / "shop", capsys, "--from", f"{registry.address}/subjects/kinds-value")
    run_project(tmp_path / "shop", document, capsys, None)
    assert table_of(tmp_path / "shop", document).keys == {"id": "id"}
