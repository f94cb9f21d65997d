"""Events after final: counted where their window was final at the watermark at which they came, by a plain oracle too."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.kernel.kernel import after_final
from tandem.views.measures import count
from tandem.views.source.source import Source
from tandem.views.sql import engine
from tandem.views.view import View
from tandem.views.windows import Window, all_time, calendar, count_window, hopping, session, sliding_count_window, tumbling
from tests.samples import EPOCH, Sample, share, table

START = datetime(2026, 11, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SOURCE = Source(topic="samples", event=Sample, event_time="at", name="samples", lateness=10 * SECOND)


def us(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def ceiled(time: datetime, size: timedelta) -> datetime:
    return EPOCH + ((time - EPOCH) // size + 1) * size


ENDS: dict[str, tuple[Window, Callable[[datetime], datetime | None]]] = {
    "tumbling": (tumbling(seconds=7), lambda at: ceiled(at, 7 * SECOND)),
    "hopping": (hopping(9 * SECOND, every=6 * SECOND), lambda at: ceiled(at, 3 * SECOND)),
    "calendar": (calendar("day", zone="UTC"), lambda at: ceiled(at, timedelta(days=1))),
    "session": (session(seconds=5), lambda at: at + 5 * SECOND),
    "all time": (all_time(), lambda _: None),
    "every": (count_window(2), lambda _: None),
    "last": (sliding_count_window(2), lambda _: None),
}
EVENTS = st.lists(st.tuples(st.integers(-90_000, 90), st.integers(-2, 2)) | st.tuples(st.integers(-30, 60), st.integers(-2, 2)))


@pytest.mark.parametrize("kind", sorted(ENDS))
@share(30)
@given(EVENTS, st.none() | st.integers(-60, 60))
def test_an_event_that_counts_is_after_final_if_its_window_was(kind: str, events: Any, reached: int | None) -> None:
    """Neither what the filter leaves out nor what is rejected came into any window."""
    window, end = ENDS[kind]
    view = View(SOURCE, keys={"k": "10 // i"}, where="s = 'in'", window=window, measures={"n": count()})
    rows = [{"at": START + seconds * SECOND, "i": number, "s": "out" if number == 2 else "in"} for seconds, number in events]
    got = after_final(view, table(rows), None if reached is None else us(START + reached * SECOND))
    if reached is None:
        assert got == 0
        return
    # Nothing is divided by zero.
    counted = [ends for row in rows if row["s"] == "in" and row["i"] != 0 and (ends := end(row["at"])) is not None]
    assert got == sum(ends + SOURCE.lateness <= START + reached * SECOND for ends in counted)


def test_an_event_that_fails_the_whole_statement_is_not_counted() -> None:
    """A zone that nobody knows gets past DuckDB's TRY."""
    key = """extract(hour FROM "at" AT TIME ZONE s)"""
    view = View(SOURCE, keys={"k": key}, window=tumbling(seconds=7), measures={"n": count()})
    rows = [{"at": START, "s": zone} for zone in ("UTC", "Nowhere/City", "Europe/Berlin")]
    assert after_final(view, table(rows), us(START) + 10**9) == 2


def test_a_window_is_final_exactly_its_lateness_after_its_end() -> None:
    view = View(SOURCE, window=tumbling(seconds=10), measures={"n": count()})
    final = us(START + 20 * SECOND)
    assert [after_final(view, table([{"at": START}]), reached) for reached in (final - 1, final)] == [0, 1]


def test_no_lateness_is_too_long() -> None:
    patient = Source(topic="samples", event=Sample, event_time="at", name="samples", lateness=timedelta.max)
    assert after_final(View(patient, window=tumbling(seconds=7), measures={"n": count()}), table([{"at": START}]), 0) == 0


def test_one_plan_serves_every_watermark() -> None:
    """Each micro-batch has another watermark, and a plan costs several times as much as its run."""
    view = View(SOURCE, window=tumbling(seconds=10), measures={"n": count()})
    rows, plans = table([{"at": START}]), []
    for seconds in (20, 21, 22):
        assert after_final(view, rows, us(START + seconds * SECOND)) == 1
        plans.append(len(engine.connection().execute("FROM duckdb_prepared_statements()").fetchall()))
    assert plans[0] == plans[1] == plans[2]
