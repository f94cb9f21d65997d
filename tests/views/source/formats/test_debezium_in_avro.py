"""Change events in Avro have the values that the same changes have in JSON with their schema."""

import io
import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Name, Scale, Source, Zone, debezium
from tandem.infra.settings import RegistrySettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.decode import DecodedRecords, decode
from tandem.views.errors import DefinitionError
from tests.schema_server import SchemaServer, schema_server
from tests.views.logged import records
from tests.views.source.formats import test_debezium as in_json
from tests.views.source.formats.test_debezium import COLUMNS, KINDS, LOGGED, ROW, SOURCE, fields, kinds

NUMBERS: dict[str, Any] = {
    "r": {"type": "float"},
    "g": {"type": "double"},
    "big": {"type": "int64"},
    "truth": {"type": "boolean"},
}
ALL = {**COLUMNS, **NUMBERS}
PHYSICAL = {"int32": "int", "int64": "long", "string": "string", "bytes": "bytes", "float": "float", "double": "double"}


class WithNumberKinds(in_json.Kind):
    r: float | None = None
    g: float | None = None
    big: int | None = None
    truth: bool | None = None


def avro_type(of: Mapping[str, Any]) -> Any:
    """What Confluent's and Apicurio's converters make of a schema of Connect."""
    named = {key: of[key] for key in ("name", "parameters") if key in of}
    props = {f"connect.{key}": value for key, value in named.items()}
    if of["type"] == "struct":
        members = [{"name": member["field"], "type": avro_type(member)} for member in of["fields"]]
        space, _, name = of["name"].rpartition(".")
        return {"type": "record", "name": name, "namespace": space, "fields": members, **props}
    if of["type"] == "array":
        return {"type": "array", "items": ["null", avro_type(of["items"])], **props}
    if of.get("name") == "org.apache.kafka.connect.data.Decimal":
        props |= {"logicalType": "decimal", "precision": 64, "scale": int(of["parameters"]["scale"])}
    physical = PHYSICAL.get(of["type"], of["type"])
    return {"type": physical, **props} if props else physical


ROWS: dict[str, Any] = {
    "type": "record",
    "name": "Value",
    "namespace": "shop.public.kinds",
    "fields": [{"name": name, "type": ["null", avro_type(of)], "default": None} for name, of in ALL.items()],
}
TEXTS = ("version", "connector", "name", "snapshot", "db", "sequence", "schema", "table")
ENVELOPE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.kinds",
    "fields": [
        {"name": "before", "type": ["null", ROWS], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.postgresql",
                "fields": [
                    {"name": name, "type": "string" if name in TEXTS else ["null", "long"]} for name, value in SOURCE.items()
                ],
            },
        },
        {
            "name": "transaction",
            "type": ["null", {"type": "record", "name": "block", "fields": [{"name": "id", "type": "string"}]}],
            "default": None,
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
    "connect.name": "shop.public.kinds.Envelope",
}
KEY: dict[str, Any] = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.public.kinds",
    "fields": [{"name": "id", "type": "int"}],
}
SCHEMAS = {7: ENVELOPE, 8: KEY}
IN_AVRO = debezium(schemas=SCHEMAS)


def frame(number: int, content: Any) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(SCHEMAS[number]), content)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def physical(of: Mapping[str, Any], value: Any) -> Any:
    """A value of the JSON form as fastavro writes it."""
    if value is None:
        return None
    if of["type"] == "struct":
        return {member["field"]: physical(member, value[member["field"]]) for member in of["fields"]}
    if of["type"] == "array":
        return [physical(of["items"], each) for each in value]
    if of["type"] != "bytes":
        return value
    if of.get("name") == "org.apache.kafka.connect.data.Decimal":
        integer = int.from_bytes(b64decode(value), "big", signed=True)
        return Decimal(integer).scaleb(-int(of["parameters"]["scale"]))
    return b64decode(value)


def change(op: str = "c", *, row: Mapping[str, Any] | None = ROW, **members: Any) -> bytes:
    """A change in Avro, of rows in the form of JSON."""
    in_avro = None if row is None else {name: physical(ALL[name], value) for name, value in row.items()}
    rows = {"before": None, "after": None, "before" if op == "d" else "after": in_avro}
    return frame(7, {**rows, "source": SOURCE, "transaction": None, "op": op, "ts_ms": 1795993421965, **members})


def json_change(row: Mapping[str, Any]) -> bytes:
    content: dict[str, Any] = json.loads(in_json.envelope(schema=True, after=row))
    for rows in content["schema"]["fields"]:
        rows["fields"] = [{**column, "optional": True, "field": name} for name, column in ALL.items()]
    return in_json.written(content)


def decode_log(source: Source, *pairs: tuple[bytes | None, bytes | None], headers: Any = ()) -> DecodedRecords:
    return decode(source, log_of(*pairs, headers=headers))


def log_of(*pairs: tuple[bytes | None, bytes | None], headers: Any = ()) -> pa.Table:
    rows = records([value for _, value in pairs], since=LOGGED).to_pylist()
    rows = [{**row, "key": key, "headers": [*headers]} for row, (key, _) in zip(rows, pairs, strict=True)]
    return pa.Table.from_pylist(rows, schema=records([b"x"]).schema)


def test_every_column_has_the_value_of_the_same_change_in_json() -> None:
    result = decode_log(kinds(IN_AVRO), (None, change()), (None, change("u")), (None, change("r")))
    assert result.rejects.num_rows == 0, result.rejects.to_pylist()
    assert fields(decode_log(kinds(IN_AVRO), (None, change()))) == fields(
        decode_log(KINDS, (None, in_json.envelope(schema=True)))
    )
    assert result.events["op"].to_pylist() == ["c", "u", "r"]


columns = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**31), 2**31 - 1),
        "name": st.none() | st.text(),
        "l": st.none() | st.integers(1767225600 * 10**6, 1893456000 * 10**6),
        "d": st.none() | st.integers(-7000, 40000),
        "t": st.none() | st.integers(0, 86400 * 10**6 - 1),
        "i": st.none() | st.integers(-(10**15), 10**15),
        "b": st.none() | st.just("AP8=") | st.just(""),
        "n": st.none() | st.sampled_from(["BOI=", "AA==", "gAA=", "f/8="]),
        "v": st.none() | st.fixed_dictionaries({"scale": st.integers(0, 6), "value": st.sampled_from(["BMsv", "gA=="])}),
        "na": st.none() | st.lists(st.none() | st.sampled_from(["Bdw=", "gA=="]), max_size=3),
        "r": st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
        "g": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "big": st.none() | st.integers(-(2**63), 2**63 - 1),
        "truth": st.none() | st.booleans(),
    }
)


@given(row=columns)
def test_any_row_is_the_same_in_both_notations(row: dict[str, Any]) -> None:
    def source(decoder: Any) -> Source:
        return Source(topic="kinds", event=WithNumberKinds, event_time="committed", decoder=decoder)

    # Java writes a float by the shortest text that reads as the same float.
    in_json_row = {**row, "r": None if row["r"] is None else _shortest(row["r"])}
    there, here = (
        decode_log(source(debezium()), (None, json_change(in_json_row))),
        decode_log(source(IN_AVRO), (None, change(row=row))),
    )
    assert here.rejects["reason"].to_pylist() == there.rejects["reason"].to_pylist()
    assert here.events.to_pylist() == there.events.to_pylist()


def _shortest(value: float) -> float:
    """By trying: the fewest digits that read as the same number of four bytes."""
    as_float = pa.scalar(value, pa.float32())
    texts = (f"{value:.{digits}e}" for digits in range(10))
    return next(float(text) for text in texts if pa.scalar(float(text), pa.float32()) == as_float)


@pytest.mark.parametrize(
    "key", [frame(8, {"id": 7}), b'{"id":7}', in_json.key(schema=True, id=7)], ids=["avro", "json", "schema"]
)
def test_a_deleted_row_is_its_key_in_either_notation(key: bytes) -> None:
    pair = key, change("d", row={**ROW, "id": 7, "name": ""})
    row = fields(decode_log(kinds(IN_AVRO), pair))
    assert (row["id"], row["name"], row["n"], row["op"], row["deleted"]) == (7, None, None, "d", True)
    whole = fields(decode_log(kinds(debezium(schemas=SCHEMAS, before=True)), pair))
    assert (whole["id"], whole["name"], whole["n"]) == (7, "", Decimal("12.50"))
    tombstone = fields(decode_log(kinds(IN_AVRO, tombstones="event"), (key, None)))
    assert (tombstone["id"], tombstone["op"], tombstone["committed"]) == (7, "tombstone", LOGGED)


def test_headers_may_name_the_schemas() -> None:
    key, value = frame(8, {"id": 7}), change("d")
    headers = [{"key": "__value_schema_id", "value": value[:5]}, {"key": "__key_schema_id", "value": key[:5]}]
    row = fields(decode_log(kinds(IN_AVRO), (key[5:], value[5:]), headers=headers))
    assert (row["id"], row["op"]) == (7, "d")


def test_without_names_of_connect_the_logical_types_and_the_event_type_say_it() -> None:
    class Bare(Event):
        committed: Annotated[datetime, Name("__source_ts_us")]
        n: Annotated[Decimal, Scale(2)]
        d: date
        l: Annotated[datetime, Zone("UTC")]  # noqa: E741  the column's name

    types = {
        "n": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        "d": {"type": "int", "logicalType": "date"},
        "l": {"type": "long", "logicalType": "timestamp-millis"},
    }
    columns = {"type": "record", "name": "Value", "fields": [{"name": name, "type": of} for name, of in types.items()]}
    source = {"type": "record", "name": "Source", "fields": [{"name": "ts_us", "type": "long"}]}
    members = [("after", ["null", columns]), ("source", source), ("op", "string")]
    schema = {"type": "record", "name": "Envelope", "fields": [{"name": name, "type": of} for name, of in members]}
    out = io.BytesIO()
    values = {"n": Decimal("12.50"), "d": date(2026, 2, 3), "l": datetime(2026, 3, 29, 2, 30, tzinfo=UTC)}
    schemaless_writer(out, parse_schema(schema), {"after": values, "source": {"ts_us": SOURCE["ts_us"]}, "op": "c"})
    decoder = debezium(schemas={1: schema})
    row = fields(decode_log(Source("kinds", Bare, "committed", decoder=decoder), (None, b"\0\0\0\0\1" + out.getvalue())))
    assert (row["n"], row["d"], row["l"]) == (*list(values.values())[:2], values["l"])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"{}", "format: the value does not begin with a zero byte and a schema's id"),
        (b"\0\0\0\0\x09x", "schema: the source has no schema 9; schemas: 7, 8"),
        (change()[:-3], "format: not a value of its schema: it ends within"),
        (change() + b"x", "format: 1 bytes after the value"),
        (change("t", row=None), "format: op 't' is a truncate, which deletes all rows and names none"),
        (change("c", row=None), "missing_field: the change has no row in after"),
        (frame(8, {"id": 1}), "format: the value has no op: a topic of a table has changes of its rows alone"),
        (change(row={**ROW, "name": in_json.UNAVAILABLE}), "missing_field: column name is large and was not changed"),
        (change(row={**ROW, "d": 10**9}), "invalid_value: field d: not a value of its schema: year"),
    ],
)
def test_what_is_no_change_in_avro_is_rejected_with_its_reason(value: bytes, said: str) -> None:
    result = decode_log(kinds(IN_AVRO), (None, value))
    (row,) = result.rejects.to_pylist()
    assert f"{row['reason']}: {row['detail']}".startswith(said)


@pytest.fixture
def registry() -> Iterator[SchemaServer]:
    with schema_server() as running:
        yield running


def test_the_schemas_of_values_and_keys_are_fetched_from_a_registry(registry: SchemaServer, tmp_path: Any) -> None:
    for number, schema in SCHEMAS.items():
        registry.add(number, schema)
    source = kinds(debezium(registry=registry.address))
    pairs = [(frame(8, {"id": 7}), change("d")), (frame(8, {"id": 7}), None), (b'{"id":8}', change())]
    log = log_of(*pairs)
    assert set(decode(source, log).rejects["reason"].to_pylist()) == {"schema"}
    schemas = RegistrySchemas(RegistrySettings(), Tables(str(tmp_path)), lambda: LOGGED)
    result = decode(schemas.ready(source, log), log)
    assert [(row["id"], row["op"]) for row in result.events.to_pylist()] == [(7, "d"), (1, "c")]
    assert (result.rejects.num_rows, result.skipped) == (0, 1)
    assert len(registry.asked) == 2


def test_a_decoder_takes_a_registry_or_schemas() -> None:
    with pytest.raises(DefinitionError, match="debezium: give either registry="):
        debezium(registry="http://127.0.0.1:1", schemas=SCHEMAS)
    with pytest.raises(DefinitionError, match=r"debezium: schemas .* are not by the registry's ids"):
        debezium(schemas={"a": ENVELOPE})  # type: ignore[dict-item]
    with pytest.raises(DefinitionError, match="debezium: registry 'nowhere' is not an address"):
        debezium(registry="nowhere")
