"""Rows of a Parquet file are JSON objects without loss, or the file is refused in a sentence."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem import Event, Scale, Source, syslog
from tandem.cli.records.file_values import file_values
from tandem.cli.records.parquet.parquet_values import parquet_values
from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records
from tandem.views.errors import TandemError
from tandem.views.source.fields.rounded import total_roundings

AT = datetime(2026, 11, 1, 8, 0, 0, 123456, UTC)
NANOSECONDS = 1793520000_123456789
UUIDS = [UUID(int=7), None]


def uuids() -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one and one.bytes for one in UUIDS], pa.binary(16)))


COLUMNS: dict[str, tuple[pa.Array, list[str]]] = {
    "bool": (pa.array([True, None]), ["true", "null"]),
    "int64": (pa.array([2**63 - 1, -(2**63)]), ["9223372036854775807", "-9223372036854775808"]),
    "uint64": (pa.array([2**64 - 1, None], pa.uint64()), ["18446744073709551615", "null"]),
    "float32": (pa.array([0.5, 0.1], pa.float32()), ["0.5", "0.10000000149011612"]),
    "float64": (pa.array([0.1, 1e300]), ["0.1", "1e300"]),
    "text": (pa.array(['ä"\n', ""]), ['"ä\\"\\n"', '""']),
    "large_text": (pa.array(["a", None], pa.large_string()), ['"a"', "null"]),
    "dictionary": (pa.array(["a", "b"]).dictionary_encode(), ['"a"', '"b"']),
    "decimal": (
        pa.array([Decimal("90071992547409930.30"), Decimal("-0.01")], pa.decimal128(38, 2)),
        ["90071992547409930.30", "-0.01"],
    ),
    "decimal256": (pa.array([Decimal(10**60), None], pa.decimal256(76, 0)), [str(10**60), "null"]),
    "utc": (pa.array([AT, None], pa.timestamp("us", "UTC")), ['"2026-11-01T08:00:00.123456Z"', "null"]),
    "zoned": (pa.array([AT, None], pa.timestamp("ms", "Europe/Berlin")), ['"2026-11-01T08:00:00.123Z"', "null"]),
    "nanoseconds": (
        pa.array([NANOSECONDS, -1], pa.timestamp("ns", "UTC")),
        ['"2026-11-01T08:00:00.123456789Z"', '"1969-12-31T23:59:59.999999999Z"'],
    ),
    "local": (pa.array([AT.replace(tzinfo=None), None], pa.timestamp("us")), ['"2026-11-01T08:00:00.123456"', "null"]),
    "date": (pa.array([date(2026, 11, 1), None]), ['"2026-11-01"', "null"]),
    "time": (pa.array([time(8, 0, 0, 1), None]), ['"08:00:00.000001"', "null"]),
    "time_s": (pa.array([1, 86_399], pa.time32("s")), ['"00:00:01.000"', '"23:59:59.000"']),  # Parquet has no seconds
    "time_ms": (pa.array([1, None], pa.time32("ms")), ['"00:00:00.001"', "null"]),
    "time_ns": (pa.array([86_399_999_999_999, 0], pa.time64("ns")), ['"23:59:59.999999999"', '"00:00:00.000000000"']),
    "duration_s": (pa.array([90, -(2**63)], pa.duration("s")), ['"PT90S"', '"-PT9223372036854775808S"']),
    "duration_ms": (pa.array([-1, None], pa.duration("ms")), ['"-PT0.001S"', "null"]),
    "duration_us": (pa.array([timedelta(1), timedelta(0)]), ['"PT86400S"', '"PT0S"']),
    "duration_ns": (
        pa.array([-90_000_000_001, 2**63 - 1], pa.duration("ns")),
        ['"-PT90.000000001S"', '"PT9223372036.854775807S"'],
    ),
    "durations": (pa.array([[timedelta(microseconds=1)], None]), ['["PT0.000001S"]', "null"]),
    "binary": (pa.array([b"\x00\xff", None]), ['"AP8="', "null"]),
    "fixed": (pa.array([b"ab", b"cd"], pa.binary(2)), ['"YWI="', '"Y2Q="']),
    "uuid": (uuids(), ['"00000000-0000-0000-0000-000000000007"', "null"]),
    "list": (pa.array([[1, None], []]), ["[1,null]", "[]"]),
    "null_list": (pa.array([None, [AT]], pa.list_(pa.timestamp("us", "UTC"))), ["null", '["2026-11-01T08:00:00.123456Z"]']),
    "fixed_list": (pa.array([None, [1, 2]], pa.list_(pa.int8(), 2)), ["null", "[1,2]"]),
    "struct": (
        pa.array([{"d": Decimal("1.50"), "l": ["x"]}, None], pa.struct({"d": pa.decimal128(9, 2), "l": pa.list_(pa.string())})),
        ['{"d":1.50,"l":["x"]}', "null"],
    ),
    "map": (pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())), ['{"k":1.5}', "null"]),
    "nothing": (pa.nulls(2), ["null", "null"]),
}  # fmt: skip


def written(file: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), file)
    return file


@pytest.mark.parametrize("name", COLUMNS)
def test_a_type_has_its_json(tmp_path: Path, name: str) -> None:
    column, expected = COLUMNS[name]
    rows = list(parquet_values(written(tmp_path / "f.parquet", c=column)))
    assert [row.value.decode() for row in rows] == [f'{{"c":{text}}}' for text in expected]
    assert [row.line for row in rows] == [1, 2]


def test_all_rows_are_read_in_their_order(tmp_path: Path) -> None:
    table = pa.table({"n": range(25_000), "l": [[n] if n % 3 else None for n in range(25_000)]})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=7_001)
    found = [json.loads(row.value) for row in parquet_values(tmp_path / "f.parquet")]
    assert found == table.to_pylist()


class Order(Event):
    at: datetime
    price: Annotated[Decimal, Scale(2)]
    raw: bytes
    tags: list[str]
    note: str | None


ORDERS = Source(topic="orders", event=Order, event_time="at", name="orders")


def test_the_json_source_reads_what_the_file_held(tmp_path: Path) -> None:
    prices = [Decimal("90071992547409930.30"), Decimal("-0.01")]
    file = written(
        tmp_path / "f.parquet",
        at=pa.array([AT, AT + timedelta(days=1)], pa.timestamp("ns", "UTC")),
        price=pa.array(prices, pa.decimal128(38, 2)),
        raw=[b"\x00\xff", b""],
        tags=[["a"], []],
        note=["ä", None],
        unread=pa.array([1.5, 2.5]),
    )
    with file_values(ORDERS, file) as values:
        assert (values.unit, len(values.sample())) == ("row", 2)
        records = as_records(ORDERS, [one.value for one in values], topic_id="T", offsets=[0, 1], at=AT)
        assert values.lines == 2
    decoded = decode(ORDERS, records)
    assert decoded.rejects.num_rows == 0
    assert decoded.events["price"].to_pylist() == prices
    assert decoded.events["at"].to_pylist() == [AT, AT + timedelta(days=1)]
    assert decoded.events["raw"].to_pylist() == [b"\x00\xff", b""]
    assert decoded.events["note"].to_pylist() == ["ä", None]


class Priced(Event):
    at: datetime
    price: Annotated[Decimal, Scale(2, rounding="half_even")]
    by_shop: dict[str, Annotated[Decimal, Scale(2, rounding="half_even")] | None]
    tags: dict[str, list[str]]


def test_maps_and_doubles_that_are_rounded_come_from_a_file(tmp_path: Path) -> None:
    file = written(
        tmp_path / "f.parquet",
        at=pa.array([AT, AT], pa.timestamp("us", "UTC")),
        price=pa.array([2.675, 0.5]),
        by_shop=pa.array([[("b", 0.125), ("a", None)], []], pa.map_(pa.string(), pa.float64())),
        tags=pa.array([[("x", ["1", "2"])], []], pa.map_(pa.string(), pa.list_(pa.string()))),
    )
    source = Source(topic="t", event=Priced, event_time="at")
    with file_values(source, file) as values:
        decoded = decode(source, as_records(source, [one.value for one in values], topic_id="T", offsets=range(2), at=AT))
    assert decoded.rejects.num_rows == 0
    assert decoded.events["price"].to_pylist() == [Decimal("2.68"), Decimal("0.50")]
    assert decoded.events["by_shop"].to_pylist() == [[("a", None), ("b", Decimal("0.12"))], []]
    assert decoded.events["tags"].to_pylist() == [[("x", ["1", "2"])], []]
    assert total_roundings(decoded.events) == 2


class Shift(Event):
    begins: time
    lasts: timedelta | None
    breaks: dict[str, timedelta]


UNITS: list[Any] = ["s", "ms", "us", "ns"]


@pytest.mark.parametrize("unit", UNITS)
def test_durations_and_times_of_day_are_read_to_the_microsecond(tmp_path: Path, unit: Any) -> None:
    """Digits beyond the microsecond are cut: of a time of day toward midnight, of a duration toward zero."""
    numbers = [1_999, -1_999, 86_399, None]
    of_day: dict[str, pa.DataType] = {"s": pa.time32("s"), "ms": pa.time32("ms"), "us": pa.time64("us"), "ns": pa.time64("ns")}
    file = written(
        tmp_path / "f.parquet",
        begins=pa.array([1_999, 0, 86_399, 1], of_day[unit]),
        lasts=pa.array(numbers, pa.duration(unit)),
        breaks=pa.array([[("a", number or 0)] for number in numbers], pa.map_(pa.string(), pa.duration(unit))),
    )
    source = Source(topic="t", event=Shift, event_time="_append_time")
    with file_values(source, file) as values:
        decoded = decode(source, as_records(source, [one.value for one in values], topic_id="T", offsets=range(4), at=AT))
    assert decoded.rejects.num_rows == 0
    nanoseconds = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    assert decoded.events["begins"].to_pylist() == [number * nanoseconds // 1000 for number in (1_999, 0, 86_399, 1)]
    lasts = [None if number is None else int(Fraction(number * nanoseconds, 1000)) for number in numbers]
    assert decoded.events["lasts"].to_pylist() == lasts
    assert decoded.events["breaks"].to_pylist() == [[("a", micros or 0)] for micros in lasts]


def test_times_of_spark_keep_their_years(tmp_path: Path) -> None:
    """Spark writes INT96 by default, of which pyarrow makes nanoseconds, for years from 1678 to 2261 only."""
    times = [datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1500, 1, 1), AT.replace(tzinfo=None)]  # noqa: DTZ001
    table = pa.table({"c": pa.array(times, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    found = [json.loads(row.value)["c"] for row in parquet_values(tmp_path / "f.parquet")]
    assert found == ["9999-12-31T23:59:59.999999", "1500-01-01T00:00:00.000000", "2026-11-01T08:00:00.123456"]


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (pa.array([float("nan")]), "rows 1 to 1: a number is infinite or NaN"),
        (pa.array([[float("inf")]]), "rows 1 to 1: a number is infinite or NaN"),
        (pa.array([-1]).view(pa.time64("us")), "rows 1 to 1: the time64[us] -1 does not exist; replace it by null"),
        (pa.array([86_400_000], pa.int32()).view(pa.time32("ms")), "rows 1 to 1: the time32[ms] 86400000 does not exist"),
        (pa.array([-(2**31)], pa.int32()).view(pa.date32()), "rows 1 to 1: the date32[day] -2147483648 does not exist"),
        (pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())), "is a map with keys of type int64"),
        (pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64())), "a map has a key twice"),
    ],
)
def test_what_json_cannot_hold_is_refused(tmp_path: Path, column: pa.Array, sentence: str) -> None:
    file = written(tmp_path / "f.parquet", c=column)
    with pytest.raises(TandemError) as refused:
        list(parquet_values(file))
    assert str(refused.value).startswith(f"column 'c' of {file}")
    assert sentence in str(refused.value)


class Line(Event):
    time: datetime


def test_a_file_that_is_not_parquet_and_another_source_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f.parquet").write_bytes(b'{"a": 1}\n')
    with pytest.raises(TandemError, match=r"cannot read .*f\.parquet as Parquet: "):
        list(parquet_values(tmp_path / "f.parquet"))
    lines = Source(topic="lines", event=Line, event_time="time", decoder=syslog(), name="lines")
    with pytest.raises(TandemError, match=r"source 'lines' reads syslog\(\)"), file_values(lines, tmp_path / "f.parquet"):
        pass
