"""docs/windows.md names every window and only tests that exist, and what its table says of states and look-ups is so."""

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tandem
from tandem.serving.read.selection import BadSelection, last, select
from tandem.views.kernel.kernel import arrange_as_one, merge, partial, present_arranged
from tandem.views.measures import approx_count_distinct, count, total
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.testing import answer, events_table
from tandem.views.view import View, bind
from tandem.views.windows import (
    Window,
    all_time,
    calendar,
    count_window,
    delta,
    hopping,
    punctuation,
    registry,
    session,
    sliding_count_window,
    tumbling,
)
from tests.samples import EPOCH, SAMPLES, Sample, share

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "windows.md").read_text("utf-8")
WINDOWS: dict[str, Window] = {
    "tumbling": tumbling(minutes=1),
    "hopping": hopping(timedelta(seconds=30), every=timedelta(seconds=10)),
    "calendar": calendar("day", zone="Europe/Berlin"),
    "session": session(minutes=1),
    "count_window": count_window(2),
    "sliding_count_window": sliding_count_window(2),
    "delta": delta("i", by=1),
    "punctuation": punctuation("flag"),
    "all_time": all_time(),
}
MINUTE = timedelta(minutes=1)


def view(window: Window) -> View:
    measures = {"n": count(), "sum": total("i"), "different": approx_count_distinct("s")}
    return View(SAMPLES, keys={"flag": "flag"}, window=window, measures=measures, name="windowed")


def cells(name: str) -> list[str]:
    """The window's line in the table at a glance."""
    (line,) = re.findall(rf"^\| `{name}` \|([^|\n]*(?:\|[^|\n]*){{3}})\|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


def test_every_window_is_on_the_page() -> None:
    offered = {name for name in vars(registry) if not name.startswith("_")}
    assert offered == WINDOWS.keys()
    assert offered <= set(tandem.__all__)
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == offered


def test_the_page_names_only_tests_that_exist() -> None:
    defined = {name for file in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))}
    assert {*re.findall(r"`(test_\w+)`", PAGE)} <= defined


@pytest.mark.parametrize("name", WINDOWS)
def test_the_page_states_what_may_be_pruned_by_time(name: str) -> None:
    *_, by_time, as_one = cells(name)
    windowed = view(WINDOWS[name])
    if name == "all_time":
        with pytest.raises(BadSelection, match="no windows to choose from"):
            select(windowed, {}, (EPOCH, None))
        return
    selection = select(windowed, {}, (EPOCH, EPOCH + MINUTE))
    assert (selection.expression() is not None) == (by_time == "yes")
    assert (bind(windowed).placement.timing.slice is not None) == (as_one == "yes")


@pytest.mark.parametrize("name", WINDOWS)
def test_the_page_states_the_number_of_states(name: str) -> None:
    """Six events of one key, ten seconds apart."""
    events = [Sample(at=EPOCH + timedelta(seconds=10 * number), i=0, flag=False) for number in range(6)]
    states = partial(view(WINDOWS[name]), events_table(SAMPLES, events), EMPTY).states.num_rows
    said = cells(name)[1]
    per = {"window": 1, "session": 1, "nothing else": 1, "slice": 6, "event, at most N of a partition": 2}
    assert states == per.get(said, 6)


marks = st.lists(
    st.builds(
        lambda second, i, s: Sample(at=EPOCH + timedelta(seconds=second), i=i, s=s),
        st.integers(-300, 300),
        st.integers(-9, 9),
        st.sampled_from("abc"),
    ),
    max_size=20,
)


@share(10)
@pytest.mark.parametrize("window", [tumbling(minutes=1), hopping(3 * MINUTE, every=MINUTE)])
@given(marks, st.integers(-6, 6), st.integers(0, 6), st.data())
def test_any_range_of_slices_is_one_window(
    window: Window, events: list[Sample], first: int, minutes: int, data: st.DataObject
) -> None:
    start, end = EPOCH + first * MINUTE, EPOCH + (first + minutes) * MINUTE
    at = data.draw(st.integers(0, len(events)), label="cut")
    sliced = view(window)
    parts = [partial(sliced, events_table(SAMPLES, some), EMPTY) for some in (events[:at], events[at:])]
    states = select(sliced, {}, (start, end), one=True).filter(merge(sliced, parts).states)
    found = present_arranged(sliced, arrange_as_one(sliced, states, start, end)).to_pylist()
    wanted = answer(view(all_time()), [event for event in events if start <= event.at < end])
    assert [plain(row) for row in found] == [plain(row) for row in wanted]
    assert all((row["window_start"], row["window_end"]) == (start, end) for row in found)


def plain(row: dict[str, Any]) -> tuple[int, int, int]:
    return (row["n"], int(row["sum"]), row["different"])


@pytest.mark.parametrize(("now", "end"), [("12:00:30", "12:01"), ("12:00:00", "12:01"), ("11:59:59.999999", "12:00")])
def test_the_last_span_ends_with_the_slice_that_is_now(now: str, end: str) -> None:
    day = "2026-11-01T{}+00:00"
    end_ = datetime.fromisoformat(day.format(end))
    assert last(view(tumbling(minutes=1)), 37 * MINUTE, now=datetime.fromisoformat(day.format(now))) == (end_ - 37 * MINUTE, end_)
