"""An incremental run merges the newest parts of a batch view, while they cover at most twice the merged range."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.batch.rebuild.inputs import ViewTarget
from tandem.batch.recompute import plan
from tandem.batch.recompute.plan import _MOST_PARTS
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchPart, BatchView, Windows
from tandem.views.measures import count
from tandem.views.view import View
from tandem.views.windows import Window, count_window, delta, tumbling
from tests.samples import SAMPLES

DAY: Windows = (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC))


def merged(window: Window, parts: tuple[BatchPart, ...], added: int) -> tuple[BatchPart, ...]:
    return plan.merged(ViewTarget(View(SAMPLES, window=window, measures={"n": count()}), BatchView("f", parts)), added)


def parts(lengths: list[tuple[int, int] | None]) -> tuple[BatchPart, ...]:
    """A part for each pair of offsets that it covers in two partitions; None is one that replaces windows and covers nothing."""
    found, ends = [], [0, 0]
    for version, length in enumerate(lengths):
        if length is not None:
            ends = [end + more for end, more in zip(ends, length, strict=True)]
        position = Position.of({("T", number): end for number, end in enumerate(ends) if end})
        found.append(BatchPart(version, 1, position, DAY if length is None else None))
    return tuple(found)


lengths = st.lists(st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=_MOST_PARTS - 1)


@example([(4, 4)], 4)  # exactly twice as much is merged
@example([(5, 4)], 4)  # one more is not
@example([(9, 9), (1, 1)], 1)
@given(lengths, st.integers(1, 12))
def test_the_newest_parts_are_merged_until_one_covers_more_than_twice_as_much(
    drawn: list[tuple[int, int] | None], added: int
) -> None:
    there = parts(drawn)
    covers = [0 if one is None else sum(one) for one in drawn]
    stays = [
        number for number, one in enumerate(drawn) if one is None or covers[number] > 2 * (added + sum(covers[number + 1 :]))
    ]
    first = max(stays, default=-1) + 1
    assert merged(tumbling(hours=1), there, added) == there[first:]


def test_the_number_of_parts_grows_with_the_logarithm_of_the_history() -> None:
    """A thousand runs of one offset each, of one partition or of the other by turns."""
    there: list[tuple[int, int] | None] = []
    for number in range(1000):
        gone = len(merged(tumbling(hours=1), parts(there), 1))
        last = [each for each in there[len(there) - gone :] if each is not None]
        new = (sum(each[0] for each in last) + number % 2, sum(each[1] for each in last) + (number + 1) % 2)
        there[len(there) - gone :] = [new]
        assert len(there) <= 10
    assert sum(sum(each) for each in there if each is not None) == 1000


@pytest.mark.parametrize("count_of_parts", [_MOST_PARTS - 1, _MOST_PARTS, _MOST_PARTS + 1])
def test_beyond_the_largest_number_of_parts_all_become_one(count_of_parts: int) -> None:
    """Each of them alone is far larger than what is added."""
    there = parts([None] * count_of_parts)
    assert merged(tumbling(hours=1), there, 1) == (there if count_of_parts >= _MOST_PARTS else ())


@pytest.mark.parametrize("window", [count_window(3), delta("i", by=1)])
def test_a_view_with_windows_in_log_order_has_one_part(window: Window) -> None:
    there = parts([(9, 9), (1, 0)])
    assert merged(window, there, 1) == there
