"""`init --from` a topic or a subject: a project that `check`, `try` and its own test accept, with types from the schema."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.views.project.project import load
from tandem.views.source.event import event_fields
from tests.samples import LONGER
from tests.schema_server import SchemaServer, schema_server
from tests.stack import PYTHONPATH, environ, new_topic, produce, shared_kafka

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ship", "type": {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "before", "type": ["null", "Order"]},
    ],
}
CLICK = {
    "type": "object",
    "required": ["id", "at"],
    "properties": {
        "id": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "price": {"type": "number"},
        "who": {"$ref": "#/definitions/who"},
        "often": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
    },
    "definitions": {"who": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": ["integer", "null"]}}}},
}


@pytest.fixture
def registry() -> Iterator[SchemaServer]:
    with schema_server() as server:
        yield server


@pytest.fixture
def login(broker: kafka.BrokerConnection, monkeypatch: pytest.MonkeyPatch) -> kafka.BrokerConnection:
    """The broker, whose login the environment has."""
    settings = shared_kafka(broker.address)
    for name in ("security", "mechanism", "username", "password"):
        monkeypatch.setenv(f"TANDEM_KAFKA_{name.upper()}", getattr(settings, name))
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    return broker


def address(connection: kafka.BrokerConnection, topic: kafka.Topic) -> str:
    return f"kafka://{connection.address.bootstrap}/{topic.name}"


def with_frame(content: bytes, identifier: int = 7) -> bytes:
    return b"\0" + identifier.to_bytes(4, "big") + content


def avro(number: int) -> bytes:
    sink = io.BytesIO()
    order = {
        "order_id": UUID(int=number),
        "at": NOON + timedelta(minutes=number),
        "amount": Decimal(number) / 100,
        "status": "PAID" if number % 2 else "NEW",
        "note": None,
        "day": date(2026, 11, 1),
        "ship": {"city": "Oslo"},
        "tags": {"a": "b"},
        "before": None,
    }
    fastavro.schemaless_writer(sink, fastavro.parse_schema(ORDER), order)
    return with_frame(sink.getvalue())


def run_project(
    folder: Path, document: dict[str, Any], capsys: pytest.CaptureFixture[str], events: str | None, *, tests: bool = LONGER
) -> dict[str, Any]:
    """Run `check`, the project's own test in a process of its own, and `try` on the sampled records; the document of the last."""
    assert main(["check", "--project", str(folder)]) == 0
    if tests:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
            check=True,
            env={**environ(), "PYTHONPATH": PYTHONPATH},
            stdout=subprocess.DEVNULL,
            timeout=300,
        )
    capsys.readouterr()
    if events is None:
        return {}
    assert main(["try", document["view"], str(folder / events), "--project", str(folder), "--json"]) == 0
    tried: dict[str, Any] = json.loads(capsys.readouterr().out)
    return tried


def begin(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["init", str(folder), *arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def annotations(folder: Path, source: str) -> dict[str, Any]:
    """The columns of the events, and whether they may be null."""
    fields = event_fields(load(folder).sources[source].event)
    return {field.name: (str(field.arrow), field.optional) for field in fields}


@pytest.mark.slow
def test_a_topic_of_json(
    tmp_path: Path, login: kafka.BrokerConnection, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, folder = new_topic(login), tmp_path / "shop"
    for partition in range(2):
        events = [
            {"id": f"{partition}-{n}", "at": (NOON + timedelta(minutes=n)).isoformat(), "city": "Oslo" if n % 2 else "Bergen"}
            for n in range(600)
        ]
        produce(login, topic, [json.dumps(event).encode() for event in events], partition=partition)
    document = begin(folder, capsys, "--from", address(login, topic))
    (events_file,) = (name for name in document["files"] if name.endswith(".jsonl"))
    # Both ends of both partitions, no record twice.
    lines = (folder / events_file).read_text().splitlines()
    assert len(lines) == len(set(lines)) == 1200
    tried = run_project(folder, document, capsys, events_file)
    assert (tried["events"], tried["quarantined"]) == (1200, {})
    source = load(folder).sources[document["source"]]
    assert (source.topic, source.identity, source.event_time) == (topic.name, ("id",), "at")
    settings = (folder / "tandem.toml").read_text()
    assert f'bootstrap = "{login.address.bootstrap}"' in settings
    # The password stays in the environment.
    assert shared_kafka(login.address).password not in settings
    assert main(["init", str(tmp_path / "other"), "--from", address(login, topic)]) == 0
    printed = capsys.readouterr().out
    assert " feed " not in printed, "the topic has the events already"
    assert f"try {document['view']} " in printed
    monkeypatch.setenv("TANDEM_KAFKA_PASSWORD", "wrong")
    assert main(["init", str(tmp_path / "third"), "--from", address(login, topic)]) == 1
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize(
    ("line", "decoder"),
    [
        ("{n},2026-11-01T12:{n:02}:00Z,Oslo,{n}.50", "csv(columns="),
        ('10.0.0.{n} - - [01/Nov/2026:12:{n:02}:00 +0000] "GET /p{n} HTTP/1.1" 200 {n} "-" "curl"', "apache("),
    ],
)
def test_a_topic_of_rows_and_of_log_lines(
    tmp_path: Path, login: kafka.BrokerConnection, capsys: pytest.CaptureFixture[str], line: str, decoder: str
) -> None:
    topic, folder = new_topic(login, partitions=1), tmp_path / "rows"
    produce(login, topic, [line.format(n=n).encode() for n in range(1, 40)])
    document = begin(folder, capsys, "--from", address(login, topic))
    assert decoder in (folder / "definitions.py").read_text()
    tried = run_project(folder, document, capsys, next(name for name in document["files"] if name.endswith(".txt")))
    assert (tried["events"], tried["quarantined"]) == (39, {})


@pytest.mark.slow
def test_a_topic_of_avro_has_the_types_of_its_schema(
    tmp_path: Path, login: kafka.BrokerConnection, registry: SchemaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, folder = new_topic(login, partitions=1), tmp_path / "orders"
    registry.add(7, ORDER)
    produce(login, topic, [avro(number) for number in range(1, 30)])
    assert main(["init", str(folder), "--from", address(login, topic)]) == 1
    assert "--registry http://HOST:PORT" in capsys.readouterr().err
    document = begin(folder, capsys, "--from", address(login, topic), "--registry", registry.address)
    records = next(name for name in document["files"] if name.endswith(".records"))
    tried = run_project(folder, document, capsys, records, tests=True)
    assert (tried["events"], tried["quarantined"]) == (29, {})
    assert annotations(folder, document["source"]) == {
        "order_id": ("string", False),
        "at": ("timestamp[us, tz=UTC]", False),
        "amount": ("decimal128(38, 2)", False),
        "status": ("string", False),
        "note": ("string", True),
        "day": ("date32[day]", False),
        "ship": ("struct<city: string>", False),
        "tags": ("map<string, string>", False),
    }
    text = (folder / "definitions.py").read_text()
    assert 'Literal["NEW", "PAID"]' in text
    assert '"before" is left out: the schema contains itself here' in text
    assert load(folder).sources[document["source"]].identity == ("order_id",)


@pytest.mark.parametrize("name", ["number", "guid"])
def test_a_schema_in_a_header_decides_the_types(
    tmp_path: Path, login: kafka.BrokerConnection, registry: SchemaServer, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    topic, folder, guid = new_topic(login, partitions=1), tmp_path / "orders", UUID(int=5)
    registry.add("7" if name == "number" else str(guid), ORDER)
    identifier = with_frame(b"") if name == "number" else b"\1" + guid.bytes
    with kafka.Sender(login.address) as sender:
        for number in range(1, 30):
            # The last record's header is of another program: it names no schema.
            header = identifier if number < 29 else b"no id"
            headers = (("__value_schema_id", header), ("trace", b"\0abcde"))
            milliseconds = int(NOON.timestamp() * 1000) + number
            sender.send_as(topic.name, 0, kafka.Record(milliseconds, None, avro(number)[5:], headers))
    assert main(["init", str(folder), "--from", address(login, topic)]) == 1
    assert "have the id of a schema in a header; name its registry: --registry" in capsys.readouterr().err
    document = begin(folder, capsys, "--from", address(login, topic), "--registry", registry.address)
    events = next((file for file in document["files"] if file.endswith(".records")), None)
    tried = run_project(folder, document, capsys, events)
    assert annotations(folder, document["source"])["amount"] == ("decimal128(38, 2)", False)
    if name == "number":
        assert (tried["events"], tried["quarantined"]) == (28, {})
    else:
        assert (events, document["records"]) == (None, 0)


@pytest.mark.slow
def test_a_topic_of_protocol_buffers(
    tmp_path: Path, login: kafka.BrokerConnection, registry: SchemaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = FieldDescriptorProto
    fields = [
        kinds(name="id", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL),
        kinds(name="at", number=2, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL, type_name=".google.protobuf.Timestamp"),
        kinds(name="n", number=3, type=kinds.TYPE_SINT64, label=kinds.LABEL_OPTIONAL),
        kinds(name="words", number=4, type=kinds.TYPE_STRING, label=kinds.LABEL_REPEATED),
    ]
    file = FileDescriptorProto(
        name="hit.proto",
        package="web",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
        message_type=[DescriptorProto(name="Hit", field=fields)],
    )
    registry.add(7, file.SerializeToString(), kind="PROTOBUF")
    pool = DescriptorPool()
    for each in (TIMESTAMP_FILE.serialized_pb, file.SerializeToString()):
        pool.AddSerializedFile(each)
    hit = GetMessageClass(pool.FindMessageTypeByName("web.Hit"))
    values = []
    for number in range(1, 9):
        message = hit(id=f"h{number}", n=number, words=["a"])
        message.at.FromDatetime(NOON + timedelta(minutes=number))
        values.append(with_frame(b"\0" + message.SerializeToString()))
    topic, folder = new_topic(login, partitions=1), tmp_path / "hits"
    produce(login, topic, values)
    document = begin(folder, capsys, "--from", address(login, topic), "--registry", registry.address)
    tried = run_project(folder, document, capsys, next(name for name in document["files"] if name.endswith(".records")))
    assert (tried["events"], tried["quarantined"]) == (8, {})
    assert annotations(folder, document["source"]) == {
        "id": ("string", False),
        "at": ("timestamp[us, tz=UTC]", False),
        "n": ("int64", False),
        "words": ("list<item: string>", False),
    }


def test_a_subject_without_a_topic(tmp_path: Path, registry: SchemaServer, capsys: pytest.CaptureFixture[str]) -> None:
    registry.add(8, CLICK, kind="JSON")
    registry.schemas["clicks-value/2"] = {**registry.schemas["8"], "id": 8}
    subject = f"{registry.address}/subjects/clicks-value"
    document = begin(tmp_path / "clicks", capsys, "--from", f"{subject}/versions/2")
    run_project(tmp_path / "clicks", document, capsys, None)
    assert load(tmp_path / "clicks").sources[document["source"]].topic == "clicks"
    assert annotations(tmp_path / "clicks", document["source"]) == {
        "id": ("string", False),
        "at": ("timestamp[us, tz=UTC]", False),
        "price": ("double", True),
        "who": ("struct<name: string, age: int64>", True),
        "often": ("int64", True),
    }
    assert main(["init", str(tmp_path / "other"), "--from", f"{subject}/versions/9"]) == 1
    assert "no version '9' of subject 'clicks-value'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--from", "kafka://127.0.0.1:1/orders"], "no Kafka broker at 127.0.0.1:1"),
        (["--from", "kafka://127.0.0.1:9092"], "expected kafka://HOST:PORT/TOPIC"),
        (["--from", "kafka://me:secret@127.0.0.1:9092/orders"], "a login does not belong in the address"),
        (["--from", "ftp://127.0.0.1/orders.csv"], "expected a file, kafka://HOST:PORT/TOPIC or http://"),
        (["--from", "orders.csv", "--registry", "http://127.0.0.1:8081"], "--registry belongs to --from kafka://"),
        (["--registry", "http://127.0.0.1:8081"], "--registry belongs to --from"),
    ],
)
def test_a_wrong_address_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["init", str(tmp_path / "new"), *arguments]) != 0
    printed = capsys.readouterr().err
    assert sentence in printed
    assert "secret" not in printed
    assert not (tmp_path / "new").exists()
