"""Values that hold lists: their events, and their rejects, are what each alone would be. With `on_bad_event="record"` all
events count or none; the first fault is its own.

The oracle is the same decoder without `max_events_per_record`, over each part as a value of its own.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st

from tandem import Source, View, avro, count, csv
from tandem.views.decode import REASONS
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.kernel.kernel import prepare
from tandem.views.project.partition_key import record_keys
from tandem.views.source.log_order import event_rejects, further, log_order
from tandem.views.source.source import events_schema, rejects_schema
from tandem.views.testing import answer, events_table
from tests.samples import share
from tests.views.decode import test_decode_function
from tests.views.logged import decoded
from tests.views.source.formats import (
    test_apache_combined,
    test_avro,
    test_csv,
    test_json,
    test_nginx_json,
    test_protobuf,
    test_syslog,
)

MOST = 4


@dataclass(frozen=True)
class Format:
    """A source of one event a value, one of several, values of the first, and how they are put together for the second."""

    alone: Source
    several: Source
    good: Sequence[bytes]
    bad: Sequence[bytes]
    join: Callable[[Sequence[bytes]], bytes]


def by_line(source: Source, good: Sequence[bytes], bad: Sequence[bytes]) -> Format:
    return Format(source, replace(source, max_events_per_record=MOST), good, bad, b"\n".join)


def array(values: Sequence[bytes]) -> bytes:
    """An Avro array in blocks of one item, with and without a size."""
    blocks = [b"\x01%b%b" % (zigzag(len(value)), value) if number % 2 else b"\x02" + value for number, value in enumerate(values)]
    return b"".join(blocks) + b"\0"


def zigzag(number: int) -> bytes:
    return bytes(_VarintBytes(2 * number))


def read_several(value: bytes) -> Any:
    return [test_decode_function.read(value[at : at + 16]) for at in range(0, len(value), 16)]


HEADER = ",".join(reversed(test_csv.COLUMNS)).encode()


def under_header(values: Sequence[bytes]) -> bytes:
    return b"\r\n".join([HEADER, *values])


def backwards(**changes: str) -> bytes:
    return test_csv.written(list(reversed((test_csv.GOOD | changes).values()))).removesuffix(b"\r\n")


json_, function = test_json.RICH, test_decode_function.PINGS
rows, orders = test_csv.ROWS, test_protobuf.ORDERS
FORMATS: dict[str, Format] = {
    "json": Format(
        json_,
        replace(json_, max_events_per_record=MOST),
        [test_json.rich(price="12.3", tags=["a"]), test_json.rich(spot={"x": 2})],
        [b"{}", b"1", test_json.rich(at="1990-01-01T00:00:00Z"), test_json.rich(limited=-1), b'{"at": 1, "at": 2}'],
        lambda values: b"[" + b" , ".join(values) + b"]",
    ),
    "csv": by_line(
        rows,
        [test_csv.row(s='a "b", c\r\nd').removesuffix(b"\r\n"), test_csv.row(f="1.5").removesuffix(b"\r\n")],
        [b"1,2", test_csv.row(n="x").removesuffix(b"\r\n"), test_csv.row(at="1990-01-01T00:00:00Z").strip()],
    ),
    "csv_header": Format(
        replace(rows, decoder=csv(columns=tuple(reversed(test_csv.COLUMNS)))),
        replace(rows, decoder=csv(header=True), max_events_per_record=MOST),
        [backwards(s='a "b", c\r\nd'), backwards(f="1.5")],
        [b"1,2", backwards(n="x"), backwards(at="1990-01-01T00:00:00Z")],
        under_header,
    ),
    "nginx_json": by_line(test_nginx_json.ACCESS, [test_nginx_json.line(), test_nginx_json.line(status="404")], [b"{}", b"x"]),
    "apache_combined": by_line(
        test_apache_combined.LINES,
        [test_apache_combined.line()],
        [b"x", test_apache_combined.line(time="[]")],
    ),
    "syslog": by_line(
        test_syslog.MESSAGES,
        [text.encode() for text, _ in test_syslog.EXAMPLES],
        [b"<1>", b"<192>1 2003-10-11T22:14:15Z h a p m -", b"\xff"],
    ),
    "protobuf": Format(
        orders,
        replace(orders, max_events_per_record=MOST),
        [test_protobuf.sent(tags=["a"] * 100), test_protobuf.sent(note="b")],
        [b"\xff", test_protobuf.sent(at={"seconds": 0}), test_protobuf.sent(needed=None)],
        lambda values: b"".join(bytes(_VarintBytes(len(value))) + value for value in values),
    ),
    "avro": Format(
        test_avro.BARE,
        replace(test_avro.BARE, decoder=avro(schema={"type": "array", "items": test_avro.ORDER}), max_events_per_record=MOST),
        [test_avro.written(), test_avro.written(spot=None)],
        [test_avro.written(colour="GREEN"), test_avro.written(at=datetime(1990, 1, 1, tzinfo=UTC))],
        array,
    ),
    "function": Format(
        function,
        replace(function, decoder=read_several, max_events_per_record=MOST),
        [test_decode_function.ping(20), test_decode_function.ping(14)],
        [test_decode_function.ping(number) for number in (2, 4, 7, 8)],
        b"".join,
    ),
}


@pytest.mark.parametrize("name", FORMATS)
@share(100, quick=10)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=MOST + 2))
def test_a_list_is_what_its_parts_are_alone(name: str, chosen: list[tuple[bool, int]]) -> None:
    one = FORMATS[name]
    parts = [(one.good if good or not one.bad else one.bad) for good, _ in chosen]
    values = [among[number % len(among)] for among, (_, number) in zip(parts, chosen, strict=True)]
    joined = one.join(values)
    if not joined:
        return  # no value at all
    found, alone = decoded(replace(one.several, on_bad_event="record"), joined), decoded(one.alone, *values)
    assert found.events.schema == events_schema(one.several)
    if 1 <= len(values) <= MOST and not alone.rejects.num_rows:
        assert found.rejects.num_rows == 0
        assert found.events["_index"].to_pylist() == list(range(len(values)))
        assert set(found.events["_offset"].to_pylist()) == {0}
        fields = [name for name in alone.events.column_names if not name.startswith("_")]
        assert found.events.select(fields) == alone.events.select(fields)
        assert further(found.events) == len(values) - 1
        return
    assert found.events.num_rows == 0
    (reject,) = found.rejects.to_pylist()
    rows = joined.partition(b"\n")[2] if name == "csv_header" else joined
    assert reject["first_bytes"] == (rows or joined)[:256]
    if alone.rejects.num_rows == 1 and 1 <= len(values) <= MOST:
        (wrong,) = alone.rejects.to_pylist()
        assert reject["reason"] == wrong["reason"]
        said = wrong["detail"].replace("read returned", "read_several returned")
        assert reject["detail"] == f"event {wrong['offset']}: {said}"[:200]


def read_each(value: bytes) -> Any:
    found: list[Any] = []
    for at in range(0, len(value), 16):
        try:
            found.append(test_decode_function.read(value[at : at + 16]))
        except (struct.error, ValueError) as error:
            found.append(error)
    return found


@pytest.mark.parametrize("name", FORMATS)
@share(100, quick=10)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1, max_size=MOST))
def test_each_event_of_a_list_has_the_outcome_that_it_has_alone(name: str, chosen: list[tuple[bool, int]]) -> None:
    one = FORMATS[name]
    parts = [(one.good if good or not one.bad else one.bad) for good, _ in chosen]
    values = [among[number % len(among)] for among, (_, number) in zip(parts, chosen, strict=True)]
    joined = one.join(values)
    if not joined:
        return  # no value at all
    several = replace(one.several, decoder=read_each) if name == "function" else one.several
    found, alone = decoded(several, joined), decoded(one.alone, *values)
    assert found.events["_index"].to_pylist() == alone.events["_offset"].to_pylist()
    fields = [name for name in alone.events.column_names if not name.startswith("_")]
    assert found.events.select(fields) == alone.events.select(fields)
    assert found.rejects.schema == rejects_schema(several)
    assert set(found.rejects["offset"].to_pylist()) <= {0}
    rejects = [(one["index"], one["reason"], one["detail"].replace("read_each", "read")) for one in found.rejects.to_pylist()]
    assert rejects == [(one["offset"], one["reason"], one["detail"]) for one in alone.rejects.to_pylist()]
    if name not in ("avro", "function", "csv", "csv_header"):  # those show the values that they have read
        samples = [one["first_bytes"] for one in found.rejects.to_pylist()]
        assert samples == [one["first_bytes"] for one in alone.rejects.to_pylist()]
    counted = event_rejects(found.rejects)
    assert found.events.num_rows + counted.events - further(found.events) - counted.further == 1


@pytest.mark.parametrize("name", FORMATS)
def test_both_kinds_of_parts_are_tried(name: str) -> None:
    """Else the law above would look at one side only."""
    one = FORMATS[name]
    assert decoded(one.alone, *one.good).rejects.num_rows == 0
    assert decoded(one.alone, *one.bad).events.num_rows == 0


@pytest.mark.parametrize("name", FORMATS)
def test_more_events_than_the_source_takes_or_none_are_refused(name: str) -> None:
    one = FORMATS[name]
    assert decoded(one.several, one.join([one.good[0]] * MOST)).events.num_rows == MOST
    (reject,) = decoded(one.several, one.join([one.good[0]] * (MOST + 1))).rejects.to_pylist()
    assert (reject["reason"], reject["detail"]) == ("length", f"{MOST + 1} events in one value; it holds 1 to {MOST}")
    assert "length" in REASONS


@pytest.mark.parametrize("value", [b"[]", b" [ ] "])
def test_an_empty_list_is_refused(value: bytes) -> None:
    (reject,) = decoded(FORMATS["json"].several, value).rejects.to_pylist()
    assert reject["reason"] == "length"


@pytest.mark.parametrize(
    ("name", "value", "reason", "says"),
    [
        ("json", b"{}", "wrong_type", "Expected `array`"),
        ("json", b"[{}", "json", ""),
        ("json", b"[\xff]", "utf8", ""),
        ("json", b"[" * 200, "json", "nested more than 128 deep"),
        ("protobuf", b"\x05ab", "format", "event 0: 5 bytes announced, 2 there"),
        ("protobuf", b"\xff" * 9, "format", "event 0: byte 0 begins no length"),
        ("avro", b"\x02", "format", ""),
        ("avro", b"\0", "length", "0 events"),
        ("function", b"short", "refused", "unpack requires"),
    ],
)
def test_what_is_no_list_at_all_is_one_reject(name: str, value: bytes, reason: str, says: str) -> None:
    (reject,) = decoded(FORMATS[name].several, value).rejects.to_pylist()
    assert (reject["reason"], says in reject["detail"]) == (reason, True), reject


def returns_one(value: bytes) -> Any:
    return test_decode_function.read(value)


def test_a_function_has_to_return_a_list() -> None:
    (reject,) = decoded(
        replace(function, decoder=returns_one, max_events_per_record=2), test_decode_function.ping(20)
    ).rejects.to_pylist()
    assert (reject["reason"], reject["detail"]) == ("wrong_type", "returns_one returned a Ping, not a list of Ping")


@pytest.mark.parametrize("many", [0, -1, True, 1.0, "3", 1_000_001])
def test_how_many_is_an_integer_within_bounds(many: Any) -> None:
    with pytest.raises(DefinitionError, match=f"max_events_per_record {many!r} is not an integer from 1 to 1000000"):
        replace(json_, max_events_per_record=many)


@pytest.mark.parametrize(
    ("schema", "many", "says"),
    [
        (
            test_avro.ORDER,
            3,
            "the schema is a record, which is one event; a source with max_events_per_record=... takes an array of records",
        ),
        ({"type": "array", "items": test_avro.ORDER}, None, "the schema is an array, .*: max_events_per_record=..."),
    ],
)
def test_an_avro_schema_is_an_array_exactly_where_values_hold_several(schema: Any, many: int | None, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        decoded(replace(test_avro.BARE, decoder=avro(schema=schema), max_events_per_record=many), b"\0")


@pytest.mark.parametrize("items", ["string", ["null", "string"], {"type": "array", "items": "long"}])
def test_an_avro_array_is_of_records(items: Any) -> None:
    with pytest.raises(DefinitionError, match="nor a union or an array with records"):
        avro(schema={"type": "array", "items": items})


def test_a_registry_frames_lists_too() -> None:
    framed = avro(schemas={7: {"type": "array", "items": test_avro.ORDER}})
    source = replace(test_avro.BARE, decoder=framed, max_events_per_record=2)
    value = test_avro.framed(7, array([test_avro.written()] * 2))
    assert decoded(source, value).events["_index"].to_pylist() == [0, 1]


def test_how_many_is_part_of_the_fingerprint() -> None:
    assert len({decoder_fingerprint(replace(json_, max_events_per_record=many)) for many in (None, 1, 2)}) == 3
    headers = [csv(header=True), csv(columns=test_csv.COLUMNS)]
    assert len({decoder_fingerprint(replace(rows, decoder=decoder)) for decoder in headers}) == 2


def test_a_record_has_the_key_that_all_its_events_have() -> None:
    keyed = replace(json_, key="limited", max_events_per_record=3)
    one, other = test_json.rich(limited=1), test_json.rich(limited=2)
    values = [FORMATS["json"].join(some) for some in ([one, one], [one, other], [one], [one, test_json.rich()])]
    assert record_keys(keyed, [*values, b"broken"]) == [b"1", None, b"1", None, None]


def test_the_log_orders_events_of_one_record_by_their_index() -> None:
    ping = test_decode_function.ping
    events = decoded(FORMATS["function"].several, ping(20) + ping(21), ping(22) + ping(23)).events
    shuffled = events.take([3, 0, 2, 1])
    assert shuffled.take(log_order(shuffled).tolist())["n"].to_pylist() == [20, 21, 22, 23]


def backwards_rows(events: Any) -> Any:
    return events.take(pa.array(range(len(events) - 1, -1, -1), pa.int64()))


def lost_index(events: Any) -> Any:
    return events.set_column(events.column_names.index("_index"), "_index", pa.array([9] * len(events), pa.int32()))


def test_what_a_source_prepares_keeps_the_index() -> None:
    ping = test_decode_function.ping
    source = replace(FORMATS["function"].several, prepare=backwards_rows)
    events = decoded(source, ping(20) + ping(21)).events
    assert prepare(source, events).events["_index"].to_pylist() == [1, 0]
    assert prepare(replace(source, prepare=lost_index), events).failed == 2


def test_a_users_test_may_use_the_index() -> None:
    view = View(FORMATS["function"].several, keys={"i": "_index"}, measures={"n": count()})
    events = [test_decode_function.Ping(at=test_decode_function.NOON, n=n) for n in range(3)]
    assert events_table(view.source, events)["_index"].to_pylist() == [0, 0, 0]
    assert answer(view, events) == [{"i": 0, "window_start": None, "window_end": None, "window_state": "open", "n": 3}]
    with pytest.raises(DefinitionError, match="_index"):
        answer(View(function, keys={"i": "_index"}, measures={"n": count()}), events)
