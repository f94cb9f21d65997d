"""Where windows begin and end, what their states cost, and what makes no window."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.instant import utc_text
from tandem.views.kernel.kernel import Partial, merge, partial, present, settle
from tandem.views.measures import approx_count_distinct, collect_set, count, total
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source
from tandem.views.testing import answer, events_table, rejected
from tandem.views.view import View, answer_schema, bind, state_schema
from tandem.views.windows import (
    Window,
    calendar,
    count_window,
    delta,
    hopping,
    punctuation,
    session,
    sliding_count_window,
    tumbling,
)
from tandem.views.windows.calendar import window_starts
from tests.samples import SAMPLES, Sample

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def at(seconds: float, **fields: Any) -> Sample:
    return Sample(at=NOON + timedelta(seconds=seconds), **fields)


def view(window: Window, **parts: Any) -> View:
    return View(SAMPLES, window=window, measures={"n": count()}, name="windowed", **parts)


def on(*times: str) -> list[Sample]:
    return [Sample(at=datetime.fromisoformat(time)) for time in times]


def bounds(window: Window, events: Sequence[Sample]) -> list[tuple[str, str, int]]:
    return [(row["window_start"], row["window_end"], row["n"]) for row in answer(view(window), events)]


def test_a_session_ends_where_the_gap_has_passed() -> None:
    assert bounds(session(seconds=10), [at(0), at(9.999999), at(20)]) == [
        ("2026-11-01T12:00:00Z", "2026-11-01T12:00:19.999999Z", 2),
        ("2026-11-01T12:00:20Z", "2026-11-01T12:00:30Z", 1),
    ]
    assert len(bounds(session(seconds=10), [at(0), at(10)])) == 2


def test_an_event_between_two_sessions_makes_them_one() -> None:
    sessions = view(session(seconds=10))
    apart = [partial(sessions, events_table(SAMPLES, [at(second)]), EMPTY) for second in (0, 18, 9)]
    assert merge(sessions, apart[:2]).states.num_rows == 2
    assert merge(sessions, apart).states.num_rows == 1


def test_windows_of_n_events_follow_the_log_not_the_time() -> None:
    rows = answer(view(count_window(2)), [at(9), at(1), at(5)])
    assert [(row["window_number"], row["window_start"], row["window_end"], row["n"]) for row in rows] == [
        (0, "2026-11-01T12:00:01Z", "2026-11-01T12:00:09Z", 2),
        (1, "2026-11-01T12:00:05Z", "2026-11-01T12:00:05Z", 1),
    ]


def test_the_last_n_events_are_those_last_in_the_log() -> None:
    rows = answer(view(sliding_count_window(2)), [at(9), at(1), at(5)])
    assert [(row["window_start"], row["window_end"], row["n"]) for row in rows] == [
        ("2026-11-01T12:00:01Z", "2026-11-01T12:00:05Z", 2)
    ]


def test_a_value_that_moved_by_exactly_that_much_has_moved() -> None:
    rows = answer(view(delta("i", by=3)), [at(0), at(1, i=5), at(2, i=7), at(3, i=8), at(4), at(5, i=6), at(6, i=5)])
    assert [row["n"] for row in rows] == [3, 3, 1]


def test_a_marker_is_the_last_event_of_its_window() -> None:
    rows = answer(view(punctuation("flag")), [at(0), at(1, flag=True), at(2, flag=True), at(3, flag=False)])
    assert [row["n"] for row in rows] == [2, 1, 1]


def test_a_hopping_window_keeps_one_state_per_slice() -> None:
    hops = view(hopping(timedelta(seconds=30), every=timedelta(seconds=10)))
    states = partial(hops, events_table(SAMPLES, [at(second) for second in range(60)]), EMPTY).states
    assert states.num_rows == 6
    rows = answer(hops, [at(0)])
    assert [(row["window_start"][-4:-1], row["window_end"][-4:-1]) for row in rows] == [
        (":40", ":10"),
        (":50", ":20"),
        (":00", ":30"),
    ]


def test_slices_are_the_greatest_common_length() -> None:
    hops = view(hopping(timedelta(seconds=25), every=timedelta(seconds=10)))
    assert partial(hops, events_table(SAMPLES, [at(0), at(4), at(5)]), EMPTY).states.num_rows == 2
    assert [row["n"] for row in answer(hops, [at(0), at(4), at(5)])] == [2, 3, 3]


@pytest.mark.parametrize(
    ("unit", "zone", "inside", "start", "end"),
    [
        ("day", "Europe/Berlin", "2026-03-29T10:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),  # 23 hours
        ("day", "Europe/Berlin", "2026-10-25T22:59:59Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),  # 25 hours
        ("week", "Europe/Berlin", "2026-11-01T22:00Z", "2026-10-25T23:00:00Z", "2026-11-01T23:00:00Z"),
        ("month", "America/New_York", "2026-12-01T04:59Z", "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"),
        ("day", "Pacific/Apia", "2011-12-30T11:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"),  # no 30th there
        ("day", "America/Sao_Paulo", "2018-11-04T12:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"),  # no midnight
        ("day", "America/Havana", "2023-11-05T04:30Z", "2023-11-05T04:00:00Z", "2023-11-06T05:00:00Z"),  # two midnights
        ("day", "UTC", "1965-02-28T23:59:59.999999Z", "1965-02-28T00:00:00Z", "1965-03-01T00:00:00Z"),
    ],
)
def test_calendar_windows_follow_the_clocks_of_their_zone(unit: Any, zone: str, inside: str, start: str, end: str) -> None:
    early = Source(
        topic="t", event=Sample, event_time="at", plausible=(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
    )
    rows = answer(View(early, window=calendar(unit, zone=zone), measures={"n": count()}), on(inside))
    assert [(row["window_start"], row["window_end"]) for row in rows] == [(start, end)]
    assert slice_of(calendar(unit, zone=zone), inside) == (start, end)


def slice_of(window: Window, time: str) -> tuple[str, ...]:
    slice_at = bind(view(window)).placement.timing.slice_at
    assert slice_at is not None
    return tuple(map(utc_text, slice_at(datetime.fromisoformat(time))))


@pytest.mark.parametrize(
    ("window", "time", "start", "end"),
    [
        (tumbling(days=7), "1969-12-31T23:59:59.999999Z", "1969-12-25T00:00:00Z", "1970-01-01T00:00:00Z"),
        (tumbling(days=7), "1970-01-01T00:00Z", "1970-01-01T00:00:00Z", "1970-01-08T00:00:00Z"),
        (tumbling(days=7), "0001-01-01T00:00Z", "0001-01-01T00:00:00Z", "0001-01-04T00:00:00Z"),
        (tumbling(days=7), "9999-12-31T23:00Z", "9999-12-30T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
        (
            hopping(timedelta(hours=3), every=timedelta(hours=2)),
            "2026-11-01T05:30Z",
            "2026-11-01T05:00:00Z",
            "2026-11-01T06:00:00Z",
        ),
        (calendar("day", zone="UTC"), "0001-05-01T00:00Z", "0002-01-01T00:00:00Z", "0002-01-02T00:00:00Z"),
        (calendar("day", zone="UTC"), "9997-12-31T12:00Z", "9997-12-31T00:00:00Z", "9998-01-01T00:00:00Z"),
        (calendar("month", zone="UTC"), "9999-05-01T00:00Z", "9998-11-01T00:00:00Z", "9998-12-01T00:00:00Z"),
    ],
)
def test_an_instant_is_in_one_slice_or_near_one(window: Window, time: str, start: str, end: str) -> None:
    assert slice_of(window, time) == (start, end)


def test_a_year_that_is_far_off_costs_no_more_than_another(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        sys.modules["tandem.views.windows.calendar"], "window_starts", lambda *of: asked.append(of[2]) or window_starts(*of)
    )
    early = Source(
        topic="t", event=Sample, event_time="at", plausible=(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
    )
    rows = answer(
        View(early, window=calendar("month", zone="UTC"), measures={"n": count()}), on("2025-01-01T00:00Z", "9990-12-31T23:00Z")
    )
    assert [row["window_end"] for row in rows] == ["2025-02-01T00:00:00Z", "9991-01-01T00:00:00Z"]
    assert asked == [2024, 2025, 2026, 9989, 9990, 9991]


@pytest.mark.parametrize(
    ("window", "outside", "inside"),
    [
        (tumbling(days=1), (), ("0001-01-01T00:00Z", "9999-12-30T23:00Z")),
        (tumbling(days=7), ("0001-01-01T00:00Z", "9999-12-31T00:00Z"), ("0001-01-08T00:00Z",)),
        (hopping(timedelta(days=2), every=timedelta(days=1)), ("0001-01-01T10:00Z",), ("0001-01-03T00:00Z",)),
        (calendar("day", zone="Asia/Kathmandu"), ("0002-12-31T23:59Z", "9998-01-01T00:00Z"), ("0003-01-01T00:00Z",)),
        (session(hours=24), ("9999-12-31T12:00Z",), ("9999-12-30T12:00Z", "0001-01-01T00:00Z")),
    ],
)
def test_no_window_leaves_the_calendar(window: Window, outside: Sequence[str], inside: Sequence[str]) -> None:
    ever = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC))
    long = View(Source(topic="t", event=Sample, event_time="at", plausible=ever), window=window, measures={"n": count()})
    assert rejected(long, on(*outside, *inside)) == ({"out_of_range": len(outside)} if outside else {})
    assert answer(long, on(*inside))


@pytest.mark.parametrize("window", [count_window(10), delta("i", by=1), punctuation("flag")])
def test_settled_states_are_one_row_per_window(window: Window) -> None:
    several = View(
        SAMPLES, window=window, measures={"n": count(), "sum": total("i"), "users": approx_count_distinct("i")}, name="several"
    )
    events = events_table(SAMPLES, [at(second, i=0, flag=False) for second in range(25)])
    whole = partial(several, events, EMPTY)
    assert whole.states.num_rows == 25
    settled = settle(several, whole.states)
    assert settled.num_rows == (3 if window == count_window(10) else 1)
    assert settled.schema == state_schema(several)


@given(
    st.lists(st.none() | st.integers(0, 12), min_size=1, max_size=12),
    st.lists(st.integers(0, 12), max_size=2),
    st.sampled_from(["i", "i / 10.0", "CAST(i AS DECIMAL(9, 1)) / 10"]),
)
def test_a_cut_anywhere_moves_no_window_of_values_that_moved(numbers: list[int | None], cuts: list[int], value: str) -> None:
    """What is below the cut is settled: the window that goes on must know its first value, be it the least or not."""
    by = Decimal(5) if value == "i" else Decimal("0.5")
    moved = view(delta(value, by=by))
    events = events_table(SAMPLES, [at(second, i=number) for second, number in enumerate(numbers)])
    whole = answer_rows(moved, partial(moved, events, EMPTY).states)
    states, begin = [], 0
    for end in [*sorted(min(cut, len(numbers)) for cut in cuts), len(numbers)]:
        part = partial(moved, events.slice(begin, end - begin), EMPTY).states
        states, begin = [*states, part], end
        if end < len(numbers):
            states = [settle(moved, merge(moved, [Partial(one) for one in states]).states)]
    assert answer_rows(moved, merge(moved, [Partial(one) for one in states]).states) == whole


def answer_rows(of: View, states: pa.Table) -> list[tuple[object, ...]]:
    """What the states come to, but for labels."""
    return [(row["window_start"], row["window_end"], row["n"]) for row in present(of, Partial(states)).to_pylist()]


def test_the_last_n_events_keep_no_more_than_n_states() -> None:
    last = view(sliding_count_window(3), keys={"i": "i"})
    states = [
        partial(last, events_table(SAMPLES, [at(second, i=number) for second in range(25)]), EMPTY).states for number in (1, 2)
    ]
    assert [one.num_rows for one in states] == [3, 3]


def test_all_rejected_events_are_counted_where_only_the_last_ones_matter() -> None:
    failing = View(SAMPLES, window=sliding_count_window(1), measures={"sum": total("CAST(digits AS INTEGER)")}, name="failing")
    assert rejected(failing, [at(second, digits="x") for second in range(5)]) == {"expression": 5}


def test_windows_in_order_have_their_partition_as_a_key() -> None:
    names = answer_schema(view(count_window(2), keys={"i": "i"})).names
    assert names == ["i", "window_start", "window_end", "window_state", "topic_id", "partition", "window_number", "n"]
    with pytest.raises(DefinitionError, match="the name 'partition' is already used"):
        answer_schema(view(count_window(2), keys={"partition": "i"}))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: hopping(timedelta(seconds=10), every=timedelta(seconds=30)), "leaves gaps between windows"),
        (lambda: hopping(timedelta(days=1), every=timedelta(seconds=7)), "86400 slices of 0:00:01; at most 1500"),
        (lambda: hopping(timedelta(0), every=timedelta(0)), "a hopping window's size of 0:00:00 is not possible"),
        (session, "a session's gap of 0:00:00 is not possible"),
        (lambda: calendar("year", zone="UTC"), "no calendar window of 'year'; units: day, week, month"),  # type: ignore[arg-type]
        (lambda: calendar("day", zone="Europe/Berlim"), "no time zone 'Europe/Berlim'; zones: Europe/Berlin"),
        (lambda: count_window(0), "a window of 0 events is not possible"),
        (lambda: sliding_count_window(True), "a window of True events is not possible"),
        (lambda: delta("i", by=0), "by 0 is not a number above 0"),
        (lambda: delta("i", by=float("nan")), "by nan is not a number above 0"),
        (lambda: delta("i", by=Decimal("sNaN")), "by Decimal('sNaN') is not a number above 0"),
        (lambda: answer_schema(view(delta("f", by=10**400))), "window: 'f' is of type DOUBLE, whose values never differ by 1000"),
        (lambda: tumbling(seconds=float("nan")), "a tumbling window's size of seconds=nan is not possible"),
        (lambda: tumbling(days=1e20), "a tumbling window's size of days=1e+20 is not possible"),
        (lambda: session(minutes="3"), "a session's gap: minutes='3' is not a number; write minutes=1"),  # type: ignore[arg-type]
        (lambda: calendar("day", zone=["UTC"]), "zone ['UTC'] is not the name of a time zone"),  # type: ignore[arg-type]
        (lambda: answer_schema(View(SAMPLES, measures={"s": collect_set(None)})), "is not a text"),
        (lambda: answer_schema(view(delta("s", by=1))), "window: 's' is of type VARCHAR; delta takes a number"),
        (lambda: answer_schema(view(punctuation("i"))), "window: 'i' is of type BIGINT; punctuation takes a condition"),
        (lambda: answer_schema(view(punctuation("x = 1"))), "window: 'x = 1' names a field 'x' that Sample does not have"),
    ],
)
def test_what_makes_no_window_is_refused(make: Any, sentence: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        make()
    assert sentence in str(refused.value)


def test_a_double_moves_by_the_largest_one() -> None:
    """From nothing to it, and by more from one end to the other; by a larger number none ever moves."""
    largest = sys.float_info.max
    moves = [at(second, f=value) for second, value in enumerate((0.0, largest, 1.0, -largest))]
    assert len(answer(view(delta("f", by=largest)), moves)) == 4
    with pytest.raises(DefinitionError, match="never differ by"):
        answer_schema(view(delta("f", by=2 * int(largest))))
