"""Change events of Debezium: the row that a change leaves, and what it says of itself. Values are those of 3.6.1.Final."""

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, cast
from uuid import UUID

import pyarrow as pa
import pytest

from tandem import Epoch, Event, Name, Scale, Source, Unit, Zone, debezium
from tandem.views.decode import DecodedRecords, decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.decoder import Decoder
from tests.views.logged import decoded, reason, records

COLUMNS: dict[str, dict[str, Any]] = {
    "id": {"type": "int32"},
    "name": {"type": "string"},
    "n": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    "v": {
        "type": "struct",
        "name": "io.debezium.data.VariableScaleDecimal",
        "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
    },
    "l": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "d": {"type": "int32", "name": "io.debezium.time.Date"},
    "t": {"type": "int64", "name": "io.debezium.time.MicroTime"},
    "i": {"type": "int64", "name": "io.debezium.time.MicroDuration"},
    "at": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    "u": {"type": "string", "name": "io.debezium.data.Uuid"},
    "b": {"type": "bytes"},
    "na": {
        "type": "array",
        "items": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "3"}},
    },
}
ROW = {
    "id": 1,
    "name": "ann",
    "n": "BOI=",
    "v": {"scale": 5, "value": "BMsv"},
    "l": 1774751400123456,
    "d": 20487,
    "t": 3723500000,
    "i": 93600000000,
    "at": "2026-03-01T00:02:03.456789Z",
    "u": "4a1d0d2c-3f5d-4e61-9a52-1b2d3c4e5f60",
    "b": "AP8=",
    "na": ["Bdw=", None],
}
PLAIN = {
    **ROW,
    "n": "12.50",
    "v": "3.14159",
    "l": "2026-03-29T02:30:00.123456Z",
    "t": "01:02:03.5Z",
    "i": "PT26H",
    "na": ["1.500", None],
}
SOURCE = {
    "version": "3.6.1.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1795993421914,
    "snapshot": "false",
    "db": "postgres",
    "sequence": '[null,"22245832"]',
    "ts_us": 1795993421914704,
    "ts_ns": 1795993421914704000,
    "schema": "public",
    "table": "kinds",
    "txId": 732,
    "lsn": 22245832,
    "xmin": None,
}
LOGGED = datetime(2026, 11, 29, 23, 4, tzinfo=UTC)
COMMITTED = datetime(2026, 11, 29, 23, 3, 41, 914704, tzinfo=UTC)


class Kind(Event):
    id: int
    committed: Annotated[datetime, Name("__source_ts_us")]
    op: Annotated[str, Name("__op")]
    deleted: Annotated[bool, Name("__deleted")]
    read: Annotated[datetime | None, Name("__ts_ms")] = None
    schema: Annotated[str | None, Name("__schema")] = None
    table: Annotated[str | None, Name("__table")] = None
    lsn: Annotated[int | None, Name("__source_lsn")] = None
    transaction: Annotated[str | None, Name("__transaction_id")] = None
    name: str | None = None
    n: Annotated[Decimal, Scale(2)] | None = None
    v: Annotated[Decimal, Scale(6)] | None = None
    l: Annotated[datetime, Zone("Europe/Oslo")] | None = None  # noqa: E741  the column's name
    d: date | None = None
    t: time | None = None
    i: timedelta | None = None
    at: datetime | None = None
    u: UUID | None = None
    b: bytes | None = None
    na: list[Annotated[Decimal, Scale(3)] | None] | None = None


def kinds(decoder: Decoder = debezium(), **options: Any) -> Source:  # noqa: B008  a frozen dataclass
    return Source(topic="kinds", event=Kind, event_time="committed", decoder=decoder, **options)


KINDS = kinds()


def envelope(op: Any = "c", *, schema: bool = False, **members: Any) -> bytes:
    """A change as Debezium writes it."""
    row = ROW if schema else PLAIN
    rows = {"before": None, "after": None if op in ("d", "t") else row}
    payload = {**rows, "source": SOURCE, "transaction": None, "op": op, "ts_ms": 1795993421965, **members}
    if not schema:
        return written(payload)
    columns = [{**column, "optional": True, "field": name} for name, column in COLUMNS.items()]
    fields = [{"type": "struct", "fields": columns, "field": name} for name in ("before", "after")]
    return written(
        {"schema": {"type": "struct", "fields": fields, "name": "shop.public.kinds.Envelope", "version": 2}, "payload": payload}
    )


def key(*, schema: bool = False, **columns: Any) -> bytes:
    fields = [{**COLUMNS[name], "field": name} for name in columns]
    return written({"schema": {"type": "struct", "fields": fields}, "payload": columns} if schema else columns)


def written(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def logged(source: Source, *pairs: tuple[bytes | None, bytes | None]) -> DecodedRecords:
    """What these keys and values decode to."""
    table = records([value for _, value in pairs], since=LOGGED)
    place = table.schema.get_field_index("key")
    return decode(source, table.set_column(place, table.schema.field("key"), pa.array([each for each, _ in pairs], pa.binary())))


def fields(result: DecodedRecords) -> dict[str, Any]:
    (only,) = result.events.to_pylist()
    return {name: value for name, value in only.items() if not name.startswith("_")}


def detail(source: Source, *pairs: tuple[bytes | None, bytes | None]) -> Sequence[str]:
    return [f"{row['reason']}: {row['detail']}" for row in logged(source, *pairs).rejects.to_pylist()]


def test_a_schema_says_how_each_column_is_written() -> None:
    created = fields(decoded(KINDS, envelope(schema=True)))
    assert created == {
        "id": 1,
        "committed": COMMITTED,
        "op": "c",
        "deleted": False,
        "read": datetime(2026, 11, 29, 23, 3, 41, 965000, tzinfo=UTC),
        "schema": "public",
        "table": "kinds",
        "lsn": 22245832,
        "transaction": None,
        "name": "ann",
        "n": Decimal("12.50"),
        "v": Decimal("3.141590"),
        "l": datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC),  # 02:30 does not exist in Oslo that day, and is 03:30
        "d": date(2026, 2, 3),
        "t": 3723500000,
        "i": 93600000000,
        "at": datetime(2026, 3, 1, 0, 2, 3, 456789, tzinfo=UTC),
        "u": "4a1d0d2c-3f5d-4e61-9a52-1b2d3c4e5f60",
        "b": b"\x00\xff",
        "na": [Decimal("1.500"), None],
    }


def test_every_value_is_read_alone_and_in_a_row_alike() -> None:
    """A topic may have several schemas: the second value of one is read by a shorter way."""
    values = [envelope(schema=True), envelope("u", schema=True), envelope(), envelope("r", schema=True)]
    values.append(values[0].replace(b'"scale":"2"', b'"scale":"1"'))
    values.append(values[0][:-1] + b',"payload":null}')
    values.append(values[0] + b"}")
    together, alone = decoded(KINDS, *values), [decoded(KINDS, value) for value in values]
    assert together.events["n"].to_pylist() == [each for one in alone for each in one.events["n"].to_pylist()]
    assert together.events["op"].to_pylist() == ["c", "u", "c", "r", "c"]
    assert together.events["n"][-1].as_py() == Decimal(125)
    rejects = [each for one in alone for each in one.rejects["reason"].to_pylist()]
    assert together.rejects["reason"].to_pylist() == rejects == ["repeated_key", "json"]


def test_without_a_schema_the_event_type_says_it() -> None:
    class PlainKind(Event):
        committed: Annotated[datetime, Name("__source_ts_ms")]
        n: Annotated[Decimal, Scale(2)]
        l: datetime  # noqa: E741  the column's name
        d: date
        t: Annotated[time, Unit("us")]
        midday: time
        when: Annotated[datetime, Epoch("us")]

    source = Source(topic="kinds", event=PlainKind, event_time="committed", decoder=debezium())
    row = fields(decoded(source, envelope(after={**PLAIN, "t": 3723500000, "midday": "12:00:00Z", "when": 1774751400123456})))
    assert (row["n"], row["d"], row["t"]) == (Decimal("12.50"), date(2026, 2, 3), 3723500000)
    assert row["l"] == row["when"] == datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=UTC)
    assert row["committed"] == datetime(2026, 11, 29, 23, 3, 41, 914000, tzinfo=UTC)
    assert row["midday"] == 12 * 3600 * 10**6
    assert fields(decoded(KINDS, envelope(after={**PLAIN, "d": "2026-02-03Z"})))["d"] == date(2026, 2, 3)


def test_annotations_win_over_the_schema_and_a_local_time_needs_a_zone() -> None:
    class Local(Event):
        committed: Annotated[datetime, Name("__source_ts_us")]
        l: Annotated[datetime, Epoch("us")]  # noqa: E741  the column's name
        t: int

    class Unzoned(Event):
        committed: Annotated[datetime, Name("__source_ts_us")]
        l: datetime  # noqa: E741  the column's name

    row = fields(decoded(Source("kinds", Local, "committed", decoder=debezium()), envelope(schema=True)))
    assert (row["l"], row["t"]) == (datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=UTC), 3723500000)
    (said,) = detail(Source("kinds", Unzoned, "committed", decoder=debezium()), (None, envelope(schema=True)))
    assert said == "no_zone: field l has no zone: 2026-03-29T02:30:00.123456"


@pytest.mark.parametrize("schema", [False, True])
def test_an_update_is_what_the_row_is_after_it(schema: bool) -> None:  # noqa: FBT001  a parameter of pytest
    old = {**(ROW if schema else PLAIN), "name": "old"}
    row = fields(decoded(KINDS, envelope("u", schema=schema, before=old)))
    assert (row["name"], row["op"], row["deleted"]) == ("ann", "u", False)


@pytest.mark.parametrize("schema", [False, True])
def test_a_deleted_row_is_its_key_unless_before_is_whole(schema: bool) -> None:  # noqa: FBT001  a parameter of pytest
    """With PostgreSQL's default identity Debezium fills `before` with zeros, empty texts and the columns' defaults."""
    before = {**(ROW if schema else PLAIN), "id": 7, "name": ""}
    change = key(schema=schema, id=7), envelope("d", schema=schema, before=before)
    row = fields(logged(KINDS, change))
    assert (row["id"], row["name"], row["n"], row["op"], row["deleted"]) == (7, None, None, "d", True)
    assert row["committed"] == COMMITTED
    whole = fields(logged(kinds(debezium(before=True)), change))
    assert (whole["id"], whole["name"], whole["n"]) == (7, "", Decimal("12.50"))
    assert fields(logged(KINDS, (None, change[1])))["name"] == "", "a table without a key deletes by whole rows"


def test_a_deleted_row_without_a_column_that_is_required_says_what_would_help() -> None:
    class Named(Event):
        id: int
        name: str
        committed: Annotated[datetime, Name("__source_ts_us")]

    source = Source("kinds", Named, "committed", decoder=debezium())
    (said,) = detail(source, (key(id=7), envelope("d", before={**PLAIN, "id": 7})))
    assert said == (
        "missing_field: Object missing required field `name`: a deleted row has its key's columns; declare others "
        "Optional, or debezium(before=True)"
    )


def test_the_tombstone_after_a_delete_does_not_count() -> None:
    pairs = [(key(id=7), envelope("d", before={**PLAIN, "id": 7})), (key(id=7), None)]
    assert KINDS.tombstone_rule == "skip"
    result = logged(KINDS, *pairs)
    assert (result.events.num_rows, result.rejects.num_rows, result.skipped) == (1, 0, 1)
    as_event = logged(kinds(tombstones="event", compacted=True), *pairs, (key(schema=True, id=8), None))
    rows = [(row["id"], row["op"], row["deleted"], row["name"]) for row in as_event.events.to_pylist()]
    assert rows == [(7, "d", True, None), (7, "tombstone", True, None), (8, "tombstone", True, None)]
    assert decoded(kinds(tombstones="reject"), None).rejects["reason"].to_pylist() == ["empty"]


def test_a_tombstone_has_the_time_of_its_record() -> None:
    source = kinds(tombstones="event")
    row = fields(logged(source, (key(id=7), None)))
    assert row["committed"] == row["read"] == LOGGED
    assert detail(source, (None, None)) == ["missing_field: the tombstone has no key"]


UNAVAILABLE = "__debezium_unavailable_value"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("name", UNAVAILABLE),
        ("b", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("na", [UNAVAILABLE]),
        ("na", list(UNAVAILABLE.encode())),
        ("na", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
    ],
)
def test_a_large_value_that_was_not_logged_is_never_taken(column: str, value: Any) -> None:
    change = envelope("u", after={**PLAIN, column: value})
    (said,) = detail(KINDS, (None, change))
    assert said.startswith(f"missing_field: column {column} is large and was not changed, so PostgreSQL did not log it")
    assert said.endswith("REPLICA IDENTITY FULL logs it")
    unread = envelope("u", after={**PLAIN, "body": UNAVAILABLE})
    assert reason(KINDS, unread) == "event"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (envelope("t"), "format: op 't' is a truncate, which deletes all rows and names none"),
        (envelope("m"), "format: op 'm' is a message, which is about no row"),
        (envelope("x"), "format: op 'x' is unknown: a change of a row has the op c, u, r or d"),
        (envelope(op=7), "wrong_type: op: Expected `str`, got `int`"),
        (b'{"ts_ms":1795993436265}', "format: the value has no op: a topic of a table has changes of its rows alone"),
        (envelope("c", after=None), "missing_field: the change has no row in after"),
        (envelope("c", after=[1]), "wrong_type: the change's after is not an object"),
        (envelope("c", source=1), "wrong_type: the change's source is not an object"),
        (envelope("c", source=None), "missing_field: Object missing required field `__source_ts_us`"),
        (envelope("c", source={**SOURCE, "ts_us": "x"}), "invalid_value: field __source_ts_us: not a value of its schema"),
        (envelope(schema=True, after={**ROW, "n": "B!I="}), "invalid_value: field n: not a value of its schema"),
        (envelope(schema=True, after={**ROW, "n": "A" * 88}), "out_of_range: field n: a number with more"),
        (envelope(schema=True, after={**ROW, "d": 10**9}), "invalid_value: field d: not a value of its schema: year"),
        (envelope(after={**PLAIN, "n": "BOI="}), "invalid_value: field n: not a number: 'BOI='"),
        (envelope().replace(b'"table":', b'"table":"x","table":'), "repeated_key: key 'table' occurs 2 times in one object"),
        (envelope()[:-1] + b',"ts_ms":7}', "repeated_key: key 'ts_ms' occurs 2 times in one object"),
        (envelope()[:-1] + b',"op":"d"}', "repeated_key: key 'op' occurs 2 times in one object"),
        (envelope().replace(b'"id":1', b'"id":1,"id":2'), "repeated_key: key 'id' occurs 2 times in one object"),
        (b'{"schema":{"fields":7},"payload":{}}', "format: the schema is not one of Kafka Connect"),
        (b'{"schema":null,"payload":[]}', "wrong_type: the change's payload is not an object"),
    ],
)  # fmt: skip
def test_what_is_no_change_of_a_row_is_rejected_with_its_reason(value: bytes, said: str) -> None:
    (shown,) = detail(KINDS, (None, value))
    assert shown.startswith(said)


def test_a_decimal_has_the_scale_of_its_schema_and_all_of_its_digits() -> None:
    class Amount(Event):
        committed: Annotated[datetime, Name("__source_ts_us")]
        n: Annotated[Decimal, Scale(2)]

    source = Source("kinds", Amount, "committed", decoder=debezium())
    widest = b64encode((10**38 - 1).to_bytes(16, "big")).decode()
    amounts = {"AA==": "0.00", "/w==": "-0.01", "ZA==": "1.00", widest: "9" * 36 + ".99"}
    for text, amount in amounts.items():
        assert fields(decoded(source, envelope(schema=True, after={**ROW, "n": text})))["n"] == Decimal(amount)


def test_it_is_a_decoder_of_one_meaning() -> None:
    assert (str(debezium()), str(debezium(before=True))) == ("debezium()", "debezium(before=True)")
    prints = {decoder_fingerprint(kinds(decoder)) for decoder in (debezium(), debezium(before=False), debezium(before=True))}
    assert len(prints) == 2
    with pytest.raises(DefinitionError, match="before 'full' is neither True nor False"):
        debezium(before=cast("bool", "full"))
    with pytest.raises(DefinitionError, match="reads one change of a value"):
        decoded(kinds(max_events_per_record=3), envelope())
