"""A process that decodes one format's records and prints what it took: `trial.py FORMAT EVENTS`.

It imports what users import, and the kernel's `decode`, so that it runs on this checkout and on older ones.
"""

import hashlib
import importlib
import json as text
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from itertools import islice
from typing import Annotated, Any

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from tandem import (
    Event,
    Scale,
    Source,
    apache_combined,
    avro,
    csv,
    json,
    nginx_json,
    protobuf,
    syslog,
)

START = datetime(2026, 11, 1, tzinfo=UTC)
WARM = 2_000


class DecodedRequest(Event):
    """A request, of which a record also has four members that nobody reads."""

    request_id: str
    at: datetime
    user: str
    path: str
    status: int
    bytes: int
    ms: float
    price: Annotated[Decimal, Scale(2)]
    mobile: bool


class ApacheLine(Event):
    """A line of Apache's log."""

    time: datetime
    host: str
    method: str | None
    path: str | None
    status: int
    bytes: int
    agent: str


class NginxLine(Event):
    """A line of nginx's log."""

    time_iso8601: datetime
    remote_addr: str
    request: str
    status: int
    body_bytes_sent: int
    request_time: float
    http_user_agent: str | None


class SyslogMessage(Event):
    """A message of syslog."""

    time: datetime
    hostname: str
    app: str
    severity: int
    structured: str
    message: str | None


def rows() -> Iterator[dict[str, Any]]:
    """The requests, without end: the same ones in each process."""
    number = 0
    while True:
        yield {
            "request_id": f"r-{number:08x}",
            "at": START + timedelta(microseconds=37_123 * number),
            "user": f"u{number * 7919 % 5_000}",
            "path": f"/shop/item/{number * 104_729 % 360}?page={number % 9}",
            "status": (200, 304, 404, 500)[number % 4],
            "bytes": 400 + number * 31_337 % 90_000,
            "ms": round(2 + number * 271 % 4_000 / 7, 3),
            "price": Decimal(number * 7 % 100_000).scaleb(-2),
            "mobile": number % 3 == 0,
            "agent": 'Mozilla/5.0 (X11; Linux x86_64) "quoted"',
            "address": f"192.0.2.{number % 250}",
            "referer": "https://shop.example/",
            "trace": f"{number:032x}",
        }
        number += 1


def _json(row: dict[str, Any]) -> bytes:
    return text.dumps({**row, "at": row["at"].isoformat(), "price": str(row["price"])}, separators=(",", ":")).encode()


_COLUMNS = (*DecodedRequest.__annotations__, "address", "referer", "trace")


def _csv(row: dict[str, Any]) -> bytes:
    values = {**row, "at": row["at"].isoformat(), "mobile": str(row["mobile"]).lower()}
    return ",".join(str(values[name]) for name in _COLUMNS).encode()


def _csv_with_quotes(row: dict[str, Any]) -> bytes:
    values = {**row, "at": row["at"].isoformat(), "mobile": str(row["mobile"]).lower()}
    quoted = ",".join('"' + str(values[name]).replace('"', '""') + '"' for name in (*_COLUMNS, "agent"))
    return (",".join((*_COLUMNS, "agent")) + "\r\n" + quoted).encode()


def _apache(row: dict[str, Any]) -> bytes:
    agent = row["agent"].replace('"', '\\"')
    request = f"GET {row['path']} HTTP/1.1"
    return (
        f'{row["address"]} - {row["user"]} [{row["at"]:%d/%b/%Y:%H:%M:%S +0000}] "{request}" {row["status"]} {row["bytes"]} '
        f'"{row["referer"]}" "{agent}"'
    ).encode()


def _nginx(row: dict[str, Any]) -> bytes:
    return text.dumps(
        {
            "time_iso8601": f"{row['at']:%Y-%m-%dT%H:%M:%S}+00:00",
            "remote_addr": row["address"],
            "request": f"GET {row['path']} HTTP/1.1",
            "status": row["status"],
            "body_bytes_sent": str(row["bytes"]),
            "request_time": row["ms"],
            "http_user_agent": row["agent"],
            "http_referer": row["referer"],
        }
    ).encode()


def _syslog(row: dict[str, Any]) -> bytes:
    data = f'[web@32473 trace="{row["trace"]}" user="{row["user"]}"]'
    return f"<165>1 {row['at']:%Y-%m-%dT%H:%M:%S.%fZ} {row['address']} shop 8710 - {data} GET {row['path']}".encode()


_AVRO_TYPES: dict[str, Any] = {
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "status": "int",
    "bytes": "long",
    "ms": "double",
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "mobile": "boolean",
}
_AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Request",
    "fields": [{"name": name, "type": _AVRO_TYPES.get(name, "string")} for name in next(rows())],
}


def _avro() -> Callable[[dict[str, Any]], bytes]:
    parsed = fastavro.parse_schema(_AVRO)

    def write(row: dict[str, Any]) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        return stream.getvalue()

    return write


def _message() -> descriptor_pb2.FileDescriptorProto:
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {
        "status": kinds.TYPE_INT32,
        "bytes": kinds.TYPE_INT64,
        "ms": kinds.TYPE_DOUBLE,
        "mobile": kinds.TYPE_BOOL,
        "at": kinds.TYPE_MESSAGE,
    }
    file = descriptor_pb2.FileDescriptorProto(name="request.proto", package="bench", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Request")
    for number, name in enumerate(next(rows()), 1):
        field = message.field.add(name=name, number=number, label=kinds.LABEL_OPTIONAL, type=types.get(name, kinds.TYPE_STRING))
        if name == "at":
            field.type_name = ".google.protobuf.Timestamp"
    return file


def _descriptor() -> bytes:
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(_message())
    return bytes(files.SerializeToString())


def _protobuf() -> Callable[[dict[str, Any]], bytes]:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(_descriptor()).file:
        pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Request"))

    def write(row: dict[str, Any]) -> bytes:
        return bytes(message(**{**row, "price": str(row["price"])}).SerializeToString())

    return write


FORMATS: dict[str, Callable[[], tuple[Any, Any, str, Callable[[dict[str, Any]], bytes]]]] = {
    "json": lambda: (DecodedRequest, json(), "at", _json),
    "csv": lambda: (DecodedRequest, csv(columns=_COLUMNS), "at", _csv),
    "csv, quoted, with a header": lambda: (DecodedRequest, csv(header=True), "at", _csv_with_quotes),
    "avro": lambda: (DecodedRequest, avro(schema=_AVRO), "at", _avro()),
    "protobuf": lambda: (DecodedRequest, protobuf(descriptor=_descriptor(), message="bench.Request"), "at", _protobuf()),
    "apache_combined": lambda: (ApacheLine, apache_combined(), "time", _apache),
    "nginx_json": lambda: (NginxLine, nginx_json(), "time_iso8601", _nginx),
    "syslog": lambda: (SyslogMessage, syslog(), "time", _syslog),
}
"""By name: the event type, its decoder, its event time, and what writes a row."""


def package(name: str) -> Any:
    """A module of the platform. Before it owned one name, its packages were at the top level."""
    try:
        return importlib.import_module(f"tandem.{name}")
    except ModuleNotFoundError:
        return importlib.import_module(name)


def records(values: list[bytes]) -> pa.Table:
    """The values as records of one partition."""
    number = len(values)
    columns = {
        "topic_id": ["topic"] * number,
        "partition": [0] * number,
        "offset": range(number),
        "timestamp": [START + timedelta(days=20)] * number,
        "timestamp_type": [0] * number,
        "key": [None] * number,
        "value": values,
        "headers": [None] * number,
    }
    return pa.table(columns, schema=package("views.source.source").RECORDS_SCHEMA)


def run(kind: str, events: int) -> dict[str, Any]:
    """The seconds, the CPU seconds, the number of rejects and the digest of all events of one format."""
    event, decoder, event_time, write = FORMATS[kind]()
    source = Source(topic="bench", event=event, event_time=event_time, decoder=decoder)
    decode = package("views.decode.decode_records").decode
    table = records([write(row) for row in islice(rows(), events)])
    decode(source, table.slice(0, WARM))
    began, cpu = time.perf_counter(), time.process_time()
    decoded = decode(source, table)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    sink = pa.BufferOutputStream()
    decoded_events = decoded.events.replace_schema_metadata(None)
    with pa.ipc.new_stream(sink, decoded_events.schema) as writer:
        writer.write_table(decoded_events.combine_chunks())
    digest = hashlib.sha256(sink.getvalue()).hexdigest()
    return {"seconds": seconds, "cpu_s": cpu_s, "rejects": decoded.rejects.num_rows, "digest": digest}


if __name__ == "__main__":
    print(text.dumps(run(sys.argv[1], int(sys.argv[2]))))
