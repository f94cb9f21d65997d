"""The dedup window through any history of commits: an identity that is needed and missing is named, whatever the clocks read."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.speed.dedup.dedup_window import DedupWindow, Evicted, recalled
from tandem.speed.dedup.identity_runs import SECOND, merged, run_of
from tandem.speed.dedup.keys import Keys
from tandem.speed.dedup.within_task import Identities
from tests.speed.dedup.test_within_task import keys_made

SPAN = 10 * SECOND
BEGIN = 1_000 * SECOND
# In seconds: a step of the clock, how long ago the log was caught up, and the timestamps of new identities. A clock that was set
# back after it was read for the end of the log makes that end lie ahead.
commits = st.tuples(st.integers(-4, 8), st.none() | st.integers(-14, 14), st.lists(st.integers(-15, 15), max_size=3))


def named(*names: str) -> Keys:
    return keys_made(*(name.encode().ljust(16) for name in names))


@example([(1, 0, [-15, -15]), (1, 0, [-15, -15]), (1, 0, [0])], 1)  # records that are older than the span when they are counted
@given(st.lists(commits, max_size=16), st.none() | st.integers(1, 6))
def test_what_the_window_lacks_though_it_is_needed_is_named(
    history: list[tuple[int, int | None, list[int]]], most: int | None
) -> None:
    """A commit counts as made no earlier than those before it, a record's timestamp as no later than its commit."""
    window, now, latest, caught_up = DedupWindow(SPAN, most), BEGIN, BEGIN - 4 * SECOND, None
    names: list[str] = []
    counted: list[tuple[int, int]] = []
    for number, (step, behind, stamps) in enumerate(history):
        now += step * SECOND
        latest = max(latest, now)
        if behind is not None:
            caught_up = max(caught_up or 0, now - behind * SECOND)
        times = [now + stamp * SECOND for stamp in stamps]
        new = [f"{number} {each}" for each in range(len(times))]
        window = window.extended(Identities(named(*new), np.array(times, np.int64)), at=now, caught_up=caught_up)
        names, counted = names + new, counted + [(number, min(time, latest)) for time in times]

        assert int(window.times[-1]) == latest
        assert window.newest is None or window.newest <= latest
        assert all(int(run.stamps.max()) <= latest // SECOND for run in window.runs)
        held = window.holds(named(*names)).tolist()
        for (of, stamp), there in zip(counted, held, strict=True):
            if not there and (of >= window.first_number or stamp // SECOND >= window.first_stamp):
                assert window.evicted is not None
                assert of < window.evicted.number, "and none of later commits is missing"


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 99)), min_size=1))
def test_commits_that_are_not_loaded_are_named_together(missing: list[tuple[int, int | None]]) -> None:
    """Up to the last of them, and as long as the newest of all their timestamps lies within the span."""
    window = recalled(SPAN, None, times=[number * SECOND for number in range(10)], caught_up=None, newest=None)
    for number, stamp in missing:
        window = window.without(number, newest=None if stamp is None else stamp * SECOND - 1)
    last, stamps = max(number for number, _ in missing), [stamp for _, stamp in missing if stamp is not None]
    assert window.evicted == Evicted(last, last * SECOND, max(stamps, default=0))
    assert window.since == last * SECOND


rows = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6)


@given(rows, rows)
def test_merged_runs_have_the_rows_of_both_and_their_newest(lower: list[tuple[int, ...]], upper: list[tuple[int, ...]]) -> None:
    one, other = (
        run_of(
            named(*(str(word) for word, _, _ in part)),
            np.array([number for _, number, _ in part], np.int32),
            np.array([stamp * SECOND for _, _, stamp in part], np.int64),
        )
        for part in (lower, upper)
    )
    both = merged(one, other)
    assert (both.newest_number, both.newest_stamp) == (int(both.numbers.max()), int(both.stamps.max()))
    assert np.all(both.words[1:] >= both.words[:-1])
    there = zip(both.words.tolist(), both.numbers.tolist(), both.stamps.tolist(), strict=True)
    words = {word: int(named(str(word))[0, 0]) for word in range(10)}
    assert sorted(there) == sorted((words[word], number, stamp) for word, number, stamp in (*lower, *upper))
