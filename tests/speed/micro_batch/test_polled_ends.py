"""The time until which all is counted: the latest poll whose log end the layer has reached."""

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from tandem.ledger.log.positions import Position
from tandem.speed.micro_batch.log_tail import PolledEnd, PolledEnds

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
Step = tuple[tuple[int, int], tuple[int, int], int]

steps = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 3), st.integers(0, 3)),  # what each partition receives
        st.tuples(st.integers(0, 4), st.integers(0, 4)),  # how much of it the layer counts, at most
        st.sampled_from((0, 1, 4, 5, 6, 60, -5, -6, -600)),  # seconds on the layer's clock
    ),
    max_size=30,
)


def at(offsets: list[int]) -> Position:
    return Position.of({("T", partition): offset for partition, offset in enumerate(offsets)})


@example(  # the third end is five seconds from the first, but not from the second: the layer never learns of it
    [((1, 0), (0, 0), 0), ((1, 0), (0, 0), 5), ((1, 0), (0, 0), 1), ((1, 0), (3, 0), 1)]
)
@given(steps)
def test_caught_up_is_the_time_of_the_latest_reached_end(drawn: list[Step]) -> None:
    """Each end is remembered that is five seconds or more from the one before, whichever way the clock was set."""
    ends, log, counted, now = PolledEnds(), [0, 0], [0, 0], START
    remembered: list[PolledEnd] = []
    for received, most, seconds in drawn:
        log = [old + new for old, new in zip(log, received, strict=True)]
        counted = [min(old + more, end) for old, more, end in zip(counted, most, log, strict=True)]
        now += timedelta(seconds=seconds)
        newest = PolledEnd(now, at(log))
        there = at(counted)
        passed = [end for end in remembered if end.position.at_or_below(there)]
        remembered = remembered[len(passed) :]
        known = newest.position.at_or_below(there)
        assert ends.caught_up(newest, there) == (newest.asked if known else passed[-1].asked if passed else None)
        if not known and (not remembered or abs(now - remembered[-1].asked) >= timedelta(seconds=5)):
            remembered.append(newest)
