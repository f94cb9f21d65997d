"""Files of Avro and Protobuf become values by their lengths or their container, never by line feeds; JSON with ids by lines."""

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event as Stop
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, avro, json, protobuf
from tandem.cli.records.file_values import file_values
from tandem.cli.records.lines import stream_lines, without_end
from tandem.cli.records.tail import followed
from tandem.views.errors import TandemError

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "shop.Sale",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "n", "type": "int"},
        {"name": "gross", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "rest", "type": ["null", {"type": "map", "values": "string"}], "default": None},
    ],
}
ROWS = [
    # 5, 10 and 13 as zigzag bytes, and texts, are line feeds, returns and zero bytes.
    {
        "at": datetime(2026, 11, 1, tzinfo=UTC),
        "n": n,
        "gross": Decimal(n) / 100,
        "rest": {"a": "x\ny\0", "b": ""} if n % 2 else None,
    }
    for n in range(-20, 300)
]


class Sale(Event):
    at: datetime
    n: int


def source(decoder: Any, **more: Any) -> Source:
    return Source(topic="sales", event=Sale, event_time="at", name="sales", decoder=decoder, **more)


def datum(row: Any, schema: Any = SCHEMA) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


def container(file: Path, schema: Any = SCHEMA, *, codec: str = "deflate") -> Path:
    with file.open("wb") as out:
        fastavro.writer(out, schema, ROWS, codec=codec, sync_interval=500)
    return file


def varint(number: int) -> bytes:
    return bytes((number,)) if number < 128 else bytes((number & 127 | 128,)) + varint(number >> 7)


def values(of: Source, file: Path) -> list[bytes]:
    with file_values(of, file) as found:
        assert found.unit == "record" or isinstance(of.decoder, type(json(registry="http://127.0.0.1:1")))
        return [value.value for value in found]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_container_is_read_with_the_bytes_of_its_records(tmp_path: Path, codec: str) -> None:
    data = [datum(row) for row in ROWS]
    file = container(tmp_path / "sales.avro", codec=codec)
    assert values(source(avro(schema=SCHEMA)), file) == data
    other = SCHEMA | {"name": "shop.Other"}
    assert values(source(avro(schemas={3: other, 7: SCHEMA})), file) == [b"\0\0\0\0\x07" + one for one in data]
    array = {"type": "array", "items": SCHEMA}
    lists = values(source(avro(schema=array), max_events_per_record=100), file)
    read: list[Any] = [fastavro.schemaless_reader(io.BytesIO(one), array, None) for one in lists]
    assert [len(one) for one in read] == [100, 100, 100, 20]
    assert [row["n"] for one in read for row in one] == [row["n"] for row in ROWS]


def test_a_container_of_another_schema_is_refused_and_a_broken_one_ends_at_its_place(tmp_path: Path) -> None:
    file = container(tmp_path / "sales.avro")
    millis = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    other = SCHEMA | {"fields": [millis, *SCHEMA["fields"][1:]]}
    with pytest.raises(TandemError, match="the container's schema differs from the source's"):
        values(source(avro(schema=other)), file)
    with pytest.raises(TandemError, match="name no schema of a registry"):
        values(source(avro(registry="http://127.0.0.1:1")), file)
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(TandemError, match=r"record \d+ of .*: cannot read the Avro container"):
        values(source(avro(schema=SCHEMA)), file)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_values_of_any_bytes_come_back_by_their_lengths(tmp_path_factory: pytest.TempPathFactory, data: list[bytes]) -> None:
    file = tmp_path_factory.getbasetemp() / "delimited"
    file.write_bytes(b"".join(varint(len(one)) + one for one in data))
    for decoder in (avro(schema=SCHEMA), avro(registry="http://127.0.0.1:1"), protobuf(registry="http://127.0.0.1:1")):
        assert values(source(decoder), file) == data


def test_messages_of_a_list_stay_delimited(tmp_path: Path) -> None:
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    made = files.file.add(name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"])
    message = made.message_type.add(name="Sale")
    message.field.add(name="at", number=1, type=11, type_name=".google.protobuf.Timestamp", label=1)
    message.field.add(name="n", number=2, type=5, label=1)
    decoder = protobuf(descriptor=files.SerializeToString(), message="shop.Sale")
    one = b"\x0a\x02\x08\x0a\x10\x0a"
    file = tmp_path / "sales"
    file.write_bytes((varint(len(one)) + one) * 5)
    assert values(source(decoder), file) == [one] * 5
    pair = (varint(len(one)) + one) * 2
    assert values(source(decoder, max_events_per_record=2), file) == [pair, pair, varint(len(one)) + one]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"at": 1}\n', "123 bytes announced, 9 there"),
        (b"\xff" * 20, "it does not begin with a length"),
        (b"\xff\xff\xff\xff\x0f", "more than 64 MiB"),
        (b"\x05abc", "5 bytes announced, 3 there"),
    ],
)
def test_a_file_without_lengths_is_one_sentence_that_says_what_is_valid(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "sales").write_bytes(content)
    with pytest.raises(TandemError, match=f"record 1 of .*: .*{why}.*write the length of each before it") as refused:
        values(source(avro(schema=SCHEMA)), tmp_path / "sales")
    assert "\n" not in str(refused.value)


FRAMED = [b"\0" + identifier.to_bytes(4, "big") + b'{"n":1}' for identifier in (7, 10, 0x0A0A0A0A, 0x0A000D00, 266)]


@given(st.lists(st.sampled_from([*FRAMED, b'{"n":2}', b""]), max_size=9))
def test_framed_lines_keep_their_ids_whole_also_in_a_file_that_grows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    """An id's bytes may be zero bytes and line feeds."""
    file = tmp_path_factory.getbasetemp() / "framed"
    content = b"".join(line + b"\n" for line in lines)
    file.write_bytes(content)
    assert [without_end(line) for line in stream_lines(io.BytesIO(content), "framed", framed=True)] == lines
    assert values(source(json(registry="http://127.0.0.1:1")), file) == lines
    stop = Stop()
    file.write_bytes(b"")
    step = 0

    def grow() -> None:
        """A byte at a time: a frame is cut at every place."""
        nonlocal step
        if step < len(content):
            with file.open("ab") as stream:
                stream.write(content[step : step + 1])
            step += 1
        else:
            stop.set()

    assert [without_end(line) for line in followed(file, stop, pause_s=0, idle=grow, framed=True)] == lines
