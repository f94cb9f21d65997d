"""Events at the edges: filters and failures, keys that look alike, windows before 1970, nothing at all."""

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from tandem.views.kernel.kernel import Partial, merge, partial, present
from tandem.views.measures import approx_count_distinct, approx_quantiles, count, maximum, mean, minimum, total
from tandem.views.source.offset_ranges import EMPTY, Overlap, Ranges
from tandem.views.source.source import Source
from tandem.views.view import View, answer_schema, state_schema
from tandem.views.windows import Tumbling, Window, all_time, tumbling
from tests.samples import EPOCH, SAMPLES, Sample, table

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def events(*rows: dict[str, Any]) -> pa.Table:
    return table([{"at": NOON, **row} for row in rows])


def folded(view: View, *rows: dict[str, Any]) -> Partial:
    return partial(view, events(*rows), EMPTY)


def answers(view: View, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    return present(view, merge(view, [folded(view, *rows)])).to_pylist()


def counted(view: View, *rows: dict[str, Any]) -> dict[Any, int]:
    return {row["k"]: row["n"] for row in answers(view, *rows)}


def by(key: str, where: str | None = None) -> View:
    return View(SAMPLES, keys={"k": key}, measures={"n": count()}, where=where)


def test_a_null_is_a_key_like_any_other() -> None:
    assert counted(by("s"), {"s": None}, {"s": None}, {"s": ""}) == {None: 2, "": 1}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("s", ["", "a", "a\0", "a\0b", " a", "A", "ä", "a\u0308", "🙂", "\uffff", "'; --"]),
        ("b", [b"", b"\0", b"\0\0", b"a", b"\xff", b"\xc3\x28"]),
        ("i", [0, -1, 2**63 - 1, -(2**63)]),
        ("day", [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)]),
        ("t", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), EPOCH]),
        ("flag", [True, False]),
        ("f", [0.0, 5e-324, -5e-324, 1.7976931348623157e308, 0.1, 0.1 + 2**-56]),
    ],
)
def test_keys_that_differ_are_different_keys(name: str, values: list[Any]) -> None:
    assert counted(by(name), *({name: value} for value in [*values, *values])) == dict.fromkeys(values, 2)


def test_negative_zero_is_zero_everywhere() -> None:
    measures = {
        "low": minimum("f"),
        "high": maximum("f"),
        "sum": total("f"),
        "mean": mean("f"),
        "q": approx_quantiles("f", (0.5,)),
    }
    view = View(SAMPLES, keys={"k": "f"}, measures={**measures, "different": approx_count_distinct("f")})
    (row,) = answers(view, {"f": -0.0}, {"f": 0.0}, {"f": -0.0})
    zeros = [row["k"], row["low"], row["high"], row["sum"], row["mean"], row["q"]["0.5"]]
    assert [math.copysign(1, zero) for zero in zeros] == [1] * 6
    assert row["different"] == 1
    (row,) = answers(View(SAMPLES, keys={"k": "-1 * f"}, measures=measures), {"f": 0.0})
    assert math.copysign(1, row["k"]) == 1


def test_only_what_the_filter_says_yes_to_is_counted() -> None:
    assert counted(by("1", where="i > 0"), {"i": 1}, {"i": 0}, {"i": None}) == {1: 1}


def test_what_the_filter_leaves_out_is_looked_at_by_nothing_else() -> None:
    view = View(SAMPLES, keys={"k": "10 // i"}, measures={"sum": total("CAST(digits AS INTEGER)")}, where="i <> 0")
    result = folded(view, {"i": 0, "digits": "x"}, {"i": None, "digits": "x"}, {"i": 5, "digits": "7"})
    assert result.rejected == {}
    assert [row["k"] for row in present(view, result).to_pylist()] == [2]


@pytest.mark.parametrize("place", ["where", "key", "measure"])
def test_an_event_that_fails_is_rejected_and_its_neighbours_are_not(place: str) -> None:
    view = View(
        SAMPLES,
        keys={"k": "10 // i" if place == "key" else "s"},
        measures={"n": count(), "sum": total("10 // i" if place == "measure" else "i")},
        where="10 // i <> 0" if place == "where" else None,
    )
    result = folded(view, {"i": 1}, {"i": 0}, {"i": 2}, {"i": 0})
    assert result.rejected == {"expression": 2}
    assert sum(row["n"] for row in present(view, result).to_pylist()) == 2


@pytest.mark.parametrize(
    ("expression", "row", "reason"),
    [
        ("i + 1", {"i": 2**63 - 1}, "expression"),
        ("i::HUGEINT * i * 1000", {"i": 2**63 - 1}, "expression"),
        ("CAST(digits AS INTEGER)", {"digits": "x"}, "expression"),
        ("i // 0", {"i": 1}, "expression"),
        ("ln(i)", {"i": -1}, "not_finite"),
        ("f / 0", {"f": 1.0}, "not_finite"),
        ("f / 0", {"f": 0.0}, "not_finite"),
        ("f * f", {"f": 1e308}, "not_finite"),
        ("t + INTERVAL 1 DAY", {"t": datetime(9999, 12, 31, tzinfo=UTC)}, "out_of_range"),
        ("day - 1", {"day": date(1, 1, 1)}, "out_of_range"),
        ("'infinity'::TIMESTAMPTZ", {}, "out_of_range"),
        ("'-infinity'::DATE", {}, "out_of_range"),
    ],
)
def test_every_rejection_has_its_reason(expression: str, row: dict[str, Any], reason: str) -> None:
    for view in (by(expression), View(SAMPLES, measures={"n": minimum(expression)})):
        result = folded(view, row)
        assert result.rejected == {reason: 1}
        assert result.states.num_rows == 0


def test_a_null_is_no_rejection() -> None:
    expressions = ("i + 1", "f / 0", "CAST(digits AS INTEGER)", "t + INTERVAL 1 DAY", "day - 1", "ln(i)")
    view = View(SAMPLES, measures={"n": count(), **{f"m{n}": maximum(text) for n, text in enumerate(expressions)}})
    (row,) = answers(view, {})
    assert row["n"] == 1
    assert {row[f"m{n}"] for n in range(len(expressions))} == {None}


@pytest.mark.parametrize("window", [all_time(), tumbling(minutes=1)])
@pytest.mark.parametrize("keys", [{}, {"k": "s"}])
def test_a_view_that_has_counted_nothing_has_no_rows(window: Window, keys: dict[str, str]) -> None:
    view = View(SAMPLES, keys=keys, window=window, measures={"n": count(), "q": approx_quantiles("f", (0.5,))}, where="i > 0")
    for nothing in (folded(view), folded(view, {"i": 0}), folded(view, {}, {}), merge(view, []), merge(view, [folded(view)])):
        assert nothing.states.num_rows == 0
        assert nothing.states.schema == state_schema(view)
        assert present(view, nothing).num_rows == 0
        assert present(view, nothing).schema.equals(answer_schema(view), check_metadata=True)


def test_measures_without_a_value_say_what_sql_says() -> None:
    measures = {"sum": total("i"), "cents": total("d"), "double": total("f"), "mean": mean("i"), "low": minimum("s")}
    view = View(
        SAMPLES,
        measures={"n": count(), **measures, "different": approx_count_distinct("s"), "q": approx_quantiles("f", (0.5, 1))},
    )
    (row,) = answers(view, {}, {})
    assert row.pop("n") == 2
    assert row.pop("window_state") == "open"
    assert row.pop("different") == 0
    assert row.pop("q") == {"0.5": None, "1.0": None}
    assert set(row.values()) == {None}


@pytest.mark.parametrize(
    "size", [timedelta(seconds=1), timedelta(minutes=7), timedelta(days=1), timedelta(days=7), timedelta(days=400)]
)
@pytest.mark.parametrize(
    "us", [0, 1, -1, -86_400_000_000, 1_793_534_400_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999]
)
def test_windows_are_aligned_to_1970_on_both_sides_of_it(size: timedelta, us: int) -> None:
    view = View(SAMPLES, window=Tumbling(size), measures={"n": count()})
    states = partial(view, table([{"at": EPOCH + timedelta(microseconds=us)}]), EMPTY).states
    step = size // timedelta(microseconds=1)
    assert states["window_start"].cast(pa.int64()).to_pylist() == [us // step * step]
    assert states["window_end"].cast(pa.int64()).to_pylist() == [us // step * step + step]


def test_windows_are_half_open() -> None:
    view = View(SAMPLES, window=tumbling(minutes=1), measures={"n": count()})
    minute = timedelta(minutes=1)
    rows = answers(
        view, {"at": NOON - timedelta(microseconds=1)}, {"at": NOON}, {"at": NOON + minute - timedelta(microseconds=1)}
    )
    assert {row["window_start"]: row["n"] for row in rows} == {NOON - minute: 1, NOON: 2}
    assert {row["window_end"] for row in rows} == {NOON, NOON + minute}


def test_overlapping_partials_do_not_merge() -> None:
    view = by("s")
    one, other = (partial(view, events({}), Ranges.of({("topic", 0): bounds})) for bounds in ((0, 2), (1, 3)))
    with pytest.raises(Overlap):
        merge(view, [one, other])


def test_rejections_add_up() -> None:
    view = by("10 // i")
    pieces = [
        partial(view, events(*({"i": 0} for _ in range(number))), Ranges.of({("topic", 0): (number, number + 1)}))
        for number in (1, 2)
    ]
    assert merge(view, pieces).rejected == {"expression": 3}


ZONED = View(SAMPLES, keys={"hour": 'extract(hour FROM "at" AT TIME ZONE s)'}, measures={"n": count()}, where="flag")


def test_what_escapes_try_rejects_the_event_alone() -> None:
    """DuckDB raises for a zone that nobody knows, though it is asked to TRY."""
    rows = [{"flag": True, "s": zone} for zone in ("Europe/Oslo", "Mars/Base", "UTC", None, "", "UTC", "No/where")]
    rows += [{"flag": False, "s": "Mars/Base"}]
    found = folded(ZONED, *rows)
    assert found.rejected == {"expression": 3}
    assert {row["hour"]: row["n"] for row in present(ZONED, found).to_pylist()} == {13: 1, 12: 2, None: 1}
    alone = merge(ZONED, [folded(ZONED, row) for row in rows])
    assert alone.rejected == found.rejected
    assert sorted(map(repr, present(ZONED, alone).to_pylist())) == sorted(map(repr, present(ZONED, found).to_pylist()))


def test_what_escapes_try_joins_the_other_rejects() -> None:
    view = View(
        SAMPLES, keys={"hour": 'extract(hour FROM "at" AT TIME ZONE s)'}, measures={"n": total("10 // i"), "f": total("f * f")}
    )
    rows = [{"s": "UTC", "i": 0}, {"s": "Mars/Base", "i": 1}, {"s": "UTC", "i": 1, "f": 1e300}, {"s": "UTC", "i": 1}]
    assert folded(view, *rows).rejected == {"expression": 2, "not_finite": 1}


@pytest.mark.parametrize("window", [tumbling(days=1), tumbling(days=7), tumbling(hours=5), tumbling(days=365)])
def test_a_window_that_no_calendar_holds_rejects_the_event(window: Window) -> None:
    """A source may let in the first and the last microsecond that there are; a window there may begin before or end after."""
    ends = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))
    source = Source(topic="all", event=Sample, event_time="at", plausible=ends, name="all")
    view = View(source, window=window, measures={"n": count()})
    found = folded(view, *({"at": at} for at in (*ends, NOON)))
    rows = present(view, found).to_pylist()
    assert found.rejected == ({"out_of_range": 3 - len(rows)} if len(rows) < 3 else {})
    assert all(row["window_start"] <= ends[1] and row["window_end"] <= ends[1] for row in rows)
    assert any(row["window_start"] <= NOON < row["window_end"] for row in rows)
    assert len(rows) < 3
