"""Labels of windows: open before the watermark has reached the end, final once no event in time can change the window."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.views.kernel.kernel import arrange, merge, partial, present, settle
from tandem.views.kernel.label_windows import window_state
from tandem.views.kernel.present import present_arranged
from tandem.views.measures import count
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source
from tandem.views.source.watermark import final_until
from tandem.views.testing import answer
from tandem.views.view import View, answer_schema
from tandem.views.windows import (
    Window,
    all_time,
    calendar,
    count_window,
    delta,
    hopping,
    punctuation,
    session,
    sliding_count_window,
    tumbling,
)
from tests.agreement.windows import WINDOWS
from tests.samples import EPOCH, Sample, share, table, times

START = datetime(2026, 11, 1, tzinfo=UTC)
SOURCE = Source(topic="samples", event=Sample, event_time="at", name="samples", lateness=timedelta(seconds=10))


def view(window: Window) -> View:
    return View(SOURCE, window=window, measures={"n": count()})


def us(seconds: float) -> int:
    return round((START - EPOCH) / timedelta(microseconds=1) + seconds * 1_000_000)


def labels(window: Window, *seconds: float, watermark: float | None) -> list[str]:
    """The labels of the windows of events at these seconds, by window start."""
    events = table([{"at": START + timedelta(seconds=second)} for second in seconds])
    found = present(view(window), partial(view(window), events, EMPTY), None if watermark is None else us(watermark))
    return [row["window_state"] for row in sorted(found.to_pylist(), key=lambda row: row["window_start"] or START)]


STEP = 0.000001


@pytest.mark.parametrize(
    ("window", "end", "grace"),
    [
        (tumbling(seconds=30), 30, 0),
        (hopping(timedelta(seconds=30), every=timedelta(seconds=30)), 30, 0),
        (calendar("day", zone="UTC"), 86_400, 0),
        # One that came in time may join a session that ended up to a gap before.
        (session(seconds=25), 30, 25),
    ],
)
def test_a_window_of_time_is_open_then_on_time_then_final(window: Window, end: float, grace: float) -> None:
    assert labels(window, 5, watermark=None) == ["open"]
    assert labels(window, 5, watermark=end - STEP) == ["open"]
    assert labels(window, 5, watermark=end) == ["on_time"]
    assert labels(window, 5, watermark=end + grace + 10 - STEP) == ["on_time"]
    assert labels(window, 5, watermark=end + grace + 10) == ["final"]


def test_one_row_says_what_a_list_says() -> None:
    """At each bound, and a microsecond to either side of it: a row that is asked for alone has the label of the list."""
    of = view(tumbling(seconds=30))
    found = set()
    for bound in (us(30), us(40)):
        for watermark in (bound - 1, bound, bound + 1):
            arranged = arrange(of, partial(of, table([{"at": START}]), EMPTY).states)
            (listed,) = present_arranged(of, arranged, watermark)["window_state"].to_pylist()
            assert window_state(us(30), watermark, final_until(SOURCE, watermark)) == listed
            found.add(listed)
    assert found == {"open", "on_time", "final"}
    assert window_state(None, us(99), us(99)) == window_state(us(30), None, None) == "open"


def test_overlapping_windows_have_each_their_own() -> None:
    hops = hopping(timedelta(seconds=30), every=timedelta(seconds=10))
    assert labels(hops, 25, watermark=45) == ["final", "on_time", "open"]
    assert labels(hops, 25, watermark=50) == ["final", "final", "on_time"]


def test_what_has_no_end_is_always_open() -> None:
    assert labels(all_time(), 5, watermark=10**9) == ["open"]


def rows(window: Window, *numbers: int) -> list[tuple[str, int]]:
    """The labels and counts of the windows of events with these numbers, in the order of the log."""
    found = answer(view(window), [Sample(at=START, i=number, flag=number > 5) for number in numbers])
    return [(row["window_state"], row["n"]) for row in found]


def test_windows_in_the_order_of_the_log_are_final_when_they_are_complete() -> None:
    assert rows(count_window(2), 1, 2, 3) == [("final", 2), ("open", 1)]
    assert rows(count_window(2), 1, 2, 3, 4) == [("final", 2), ("final", 2)]
    assert rows(punctuation("flag"), 1, 9, 3) == [("final", 2), ("open", 1)]
    assert rows(punctuation("flag"), 1, 9, 3, 9) == [("final", 2), ("final", 2)]
    # Whether the next event is in the window depends on the event.
    assert rows(delta("i", by=3), 1, 2, 9, 9) == [("final", 2), ("open", 2)]
    assert rows(sliding_count_window(2), 1, 2, 3) == [("open", 2)]


@share(20)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(-3, 3)), min_size=1, max_size=8))
@example([("a", 0), ("a", 9), ("b", 5)])
def test_of_the_windows_of_delta_all_but_a_keys_newest_are_final(events: list[tuple[str, int | None]]) -> None:
    keyed = View(SOURCE, keys={"s": "s"}, window=delta("i", by=2), measures={"n": count()})
    found = sorted(answer(keyed, [Sample(at=START, s=s, i=i) for s, i in events]), key=lambda row: row["window_number"])
    for key in {s for s, _ in events}:
        states = [row["window_state"] for row in found if row["s"] == key]
        assert states == ["final"] * (len(states) - 1) + ["open"]


def test_settled_states_know_it_as_well() -> None:
    events = table([{"at": START, "i": number, "flag": number > 5} for number in (1, 9, 3)])
    for window in (count_window(2), punctuation("flag"), delta("i", by=3)):
        states = partial(view(window), events, EMPTY).states
        found, settled = (
            present_arranged(view(window), arrange(view(window), each))["window_state"].to_pylist()
            for each in (states, settle(view(window), states))
        )
        assert found == settled
        assert "open" in found


@share(30)
@given(
    st.sampled_from(sorted(WINDOWS)).flatmap(WINDOWS.__getitem__),
    st.lists(st.builds(dict, at=times, i=st.integers(0, 9), flag=st.booleans()), min_size=1, max_size=8),
    st.integers(0, 8),
    st.none() | times,
    st.timedeltas(timedelta(0), timedelta.max),
)
def test_what_was_final_stays_final_while_the_log_and_the_watermark_go_on(cut, events, split, reached, further) -> None:
    """Of a window that is there before and after: in the order of the log it is even the same, whatever comes."""
    of = view(cut.window)
    before = None if reached is None else (reached - EPOCH) // timedelta(microseconds=1)
    after = None if before is None else before + further // timedelta(microseconds=1)
    parts = [partial(of, table(events[:split]), EMPTY), partial(of, table(events[split:], split), EMPTY)]
    early = present(of, parts[0], before)
    late = present(of, merge(of, parts), after)
    assert early.schema == late.schema == answer_schema(of)
    windows = [name for name in early.column_names if name not in ("window_state", "n")]

    def finals(found: pa.Table) -> set[tuple[object, ...]]:
        return {tuple(row[name] for name in windows) for row in found.to_pylist() if row["window_state"] == "final"}

    there = {tuple(row[name] for name in windows) for row in late.to_pylist()}
    assert finals(early) & there <= finals(late)
    if "window_number" in windows:
        assert finals(early) <= there


@pytest.mark.parametrize("name", ["window_state", "WINDOW_STATE"])
def test_its_name_is_taken(name: str) -> None:
    with pytest.raises(Exception, match=r"the name '(window_state|WINDOW_STATE)' is already used"):
        answer_schema(View(SOURCE, measures={name: count()}))
