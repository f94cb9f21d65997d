"""Rows as `query --json` prints them: flat, ordered, and without anything that JSON cannot say."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.kernel.rows import ordered, time_text, to_rows, writer, written
from tandem.views.measures import approx_quantiles, count, maximum, mean, minimum, total
from tandem.views.source.event import Event, Scale
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source
from tandem.views.view import View, answer_schema
from tandem.views.windows import all_time, tumbling
from tests.views.logged import decoded


class Reading(Event):
    """A meter's reading."""

    at: datetime
    site: str | None
    wh: int
    price: Annotated[Decimal, Scale(2)]
    heat: float = 0.0
    day: date = date(2026, 11, 1)
    raw: bytes = b"\x00\x01"
    on: bool = True


READINGS = Source(topic="readings", event=Reading, event_time="at")


def reading(at: str, site: str | None, wh: int, price: str = "0.10") -> bytes:
    """A reading's record."""
    return json.dumps({"at": at, "site": site, "wh": wh, "price": price}).encode()


def rows(view: View, *values: bytes) -> list[dict[str, Any]]:
    """The view's rows for these records."""
    events = decoded(view.source, *values).events
    assert events.num_rows == len(values)
    return to_rows(view, present(view, merge(view, [partial(view, events, EMPTY)])))


KINDS = [
    (pa.field("v", pa.bool_()), [True, None]),
    (pa.field("v", pa.int64()), [-(2**63), 0, None]),
    (pa.field("v", pa.decimal128(38, 0), metadata={"kind": "integer"}), [Decimal(2) ** 90, Decimal(7), None]),
    (pa.field("v", pa.decimal128(10, 2)), [Decimal("-0.10"), Decimal("12345678.90"), None]),
    (pa.field("v", pa.float64()), [1.5, float("inf"), float("nan"), None]),
    (pa.field("v", pa.string()), ["", "ä", None]),
    (pa.field("v", pa.binary()), [b"", b"\xff\0", None]),
    (pa.field("v", pa.date32()), [date(1, 1, 1), date(9999, 12, 31), None]),
    (
        pa.field("v", pa.timestamp("us", "UTC")),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 11, 1, 8, 0, 0, 10, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), None],
    ),
    (pa.field("v", pa.list_(pa.timestamp("us", "UTC"))), [[datetime(2026, 11, 1, tzinfo=UTC), None], [], None]),
    (
        pa.field("v", pa.struct([("a", pa.float64()), ("b", pa.list_(pa.binary()))])),
        [{"a": 1.0, "b": [b"x"]}, {"a": None, "b": None}, None],
    ),
]


@pytest.mark.parametrize(("field", "values"), KINDS, ids=[str(field.type) for field, _ in KINDS])
def test_one_value_is_written_as_it_is_among_all_of_its_column(field: pa.Field, values: list[Any]) -> None:
    column = pa.array(values, field.type)
    assert [writer(field)(one.as_py()) for one in column] == written(column, field)


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_a_time_in_microseconds_is_written_as_in_a_column(microseconds: int) -> None:
    column = pa.array([microseconds], pa.timestamp("us", "UTC"))
    assert [time_text(microseconds)] == written(column, pa.field("v", column.type))


def test_rows_are_flat_and_ordered_by_window_then_keys() -> None:
    """A null key is a key that comes last, and every column stands under its name, keys before bounds before measures."""
    view = View(READINGS, keys={"site": "site"}, window=tumbling(hours=1), measures={"n": count(), "wh": total("wh")})
    found = rows(
        view,
        reading("2026-11-01T01:00:00Z", "BERGEN", 1),
        reading("2026-11-01T00:00:01Z", None, 2),
        reading("2026-11-01T00:59:59Z", "OSLO", 3),
        reading("2026-11-01T00:30:00Z", "OSLO", 117),
        reading("2026-11-01T00:30:00Z", "Årdal", 4),
    )
    first = {"window_start": "2026-11-01T00:00:00Z", "window_end": "2026-11-01T01:00:00Z", "window_state": "open"}
    second = {"window_start": "2026-11-01T01:00:00Z", "window_end": "2026-11-01T02:00:00Z", "window_state": "open"}
    assert found == [
        {"site": "OSLO", **first, "n": 2, "wh": 120},
        {"site": "Årdal", **first, "n": 1, "wh": 4},
        {"site": None, **first, "n": 1, "wh": 2},
        {"site": "BERGEN", **second, "n": 1, "wh": 1},
    ]
    assert list(found[0]) == ["site", "window_start", "window_end", "window_state", "n", "wh"]


def test_every_kind_of_answer_is_json() -> None:
    """Integers stay integers at any size, decimals are strings with all digits, times end in Z, all-time bounds are null."""
    view = View(
        READINGS,
        keys={"on": '"on"', "day": '"day"', "raw": "raw"},
        window=all_time(),
        measures={
            "wh": total("wh"),
            "paid": total("price"),
            "dearest": maximum("price"),
            "first": minimum('"at"'),
            "mean": mean("wh"),
            "heat": approx_quantiles("heat", (0.5, 0.99)),
            "none": maximum("nullif(wh, wh)"),
        },
    )
    most = 2**63 - 1
    (row,) = rows(
        view, reading("2026-11-01T00:00:00.000001Z", "x", most, "0.00"), reading("2026-11-01T00:00:01Z", "x", most, "12.30")
    )
    assert row == {
        "on": True,
        "day": "2026-11-01",
        "raw": "AAE=",
        "window_start": None,
        "window_end": None,
        "window_state": "open",
        "wh": 2 * most,
        "paid": "12.30",
        "dearest": "12.30",
        "first": "2026-11-01T00:00:00.000001Z",
        "mean": float(most),
        "heat": {"0.5": 0.0, "0.99": 0.0},
        "none": None,
    }
    assert type(row["wh"]) is int
    json.dumps(row, allow_nan=False)


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("CAST(price AS DECIMAL(38, 10))", Decimal("0E-10"), "0.0000000000"),
        ("CAST(price AS DECIMAL(38, 10))", Decimal("-1.5"), "-1.5000000000"),
        ("heat", float("nan"), None),
        ("heat", float("inf"), None),
        ("heat", 1.5, 1.5),
        ('"at"', datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
        ('"at"', datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "9999-12-31T23:59:59.999999Z"),
        ("CAST(wh AS HUGEINT)", Decimal(10**37), 10**37),
        ("site", "\u0000é", "\u0000é"),
    ],
)
def test_extreme_values_are_written_plainly(expression: str, value: Any, expected: Any) -> None:
    """No exponent in a decimal, no NaN, and years of four digits."""
    view = View(READINGS, window=all_time(), measures={"most": maximum(expression)})
    answer = pa.Table.from_pylist([{"window_start": None, "window_end": None, "most": value}], schema=answer_schema(view))
    assert to_rows(view, answer)[0]["most"] == expected


def test_rows_do_not_depend_on_the_order_of_the_answer() -> None:
    """Every kind of key sorts, in the order of the keys, and any order of the answer's rows gives the same rows."""
    keys = {"on": '"on"', "wh": "wh", "price": "price", "day": '"day"', "raw": "raw", "heat": "heat"}
    view = View(READINGS, keys=keys, measures={"n": count()})
    answers = [
        {"on": on, "wh": wh, "price": Decimal(price), "day": day, "raw": raw, "heat": 1.0, "n": 1}
        for on in (False, True, None)
        for wh in (-1, 2)
        for price in ("-0.50", "0.25")
        for day in (date(2026, 1, 1), date(2026, 1, 2))
        for raw in (b"\x01", b"\xff")
    ]
    table = pa.Table.from_pylist(answers, schema=answer_schema(view))
    assert ordered(view, table).equals(table)
    assert to_rows(view, table.take(list(reversed(range(len(answers)))))) == to_rows(view, table)
