"""A view that is too heavy stands aside, so that the others stay ahead; its answers never step back, and it comes back."""

from dataclasses import replace
from typing import Any

import pytest

from tandem.ledger.hot.report import HotSource
from tandem.ledger.log.positions import Position
from tandem.speed.hot import heavy_views
from tandem.speed.hot.heavy_views import AGAIN_S, LATE_S, HeavyViews
from tandem.speed.hot.hot_tail import HotTail
from tandem.views.kernel.kernel import partial, prepare
from tandem.views.view import View
from tests.speed.hot.beside import Beside, beside, layer
from tests.speed.hot.test_hot_equals_cold import Played
from tests.speed.sales import some

__all__ = ["beside", "layer"]


class Clock:
    """Monotonic seconds; folding a view adds its `cost`."""

    def __init__(self, **cost: float) -> None:
        self.now, self.cost = 0.0, cost

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock by which what comes before the views takes a second, `minutes` 2 and `shops` 3."""
    found = Clock(before=1, minutes=2, shops=3)

    def prepared(*args: Any) -> Any:
        found.now += found.cost["before"]
        return prepare(*args)

    def folded(view: View, *args: Any, **versions: Any) -> Any:
        found.now += found.cost[view.name]
        return partial(view, *args, **versions)

    monkeypatch.setattr(heavy_views, "prepare", prepared)
    monkeypatch.setattr(heavy_views, "partial", folded)
    return found


def tail(*, of: tuple[str, ...] = ("minutes", "shops")) -> HotTail:
    """A tail with these views and one segment."""
    played = Played("sales", around=True, kinds=of)
    played.append([(1, 0), (2, 1)])
    played.read(0)
    return played.hot


def late(heavy: HeavyViews, hot: HotTail, clock: Clock) -> frozenset[str]:
    """Folds come too late for as long as a tail may be late; returns what is left out then."""
    heavy.judge(hot, seconds=0, late=True)
    clock.now += LATE_S
    heavy.judge(hot, seconds=0, late=True)
    return hot.left_out


def test_the_view_that_needs_the_most_time_stands_aside_once_folds_have_come_too_late_for_long(clock: Clock) -> None:
    hot, heavy = tail(), HeavyViews(clock)
    for wait in (0, LATE_S - 1):
        clock.now += wait
        heavy.judge(hot, seconds=0, late=True)
        assert not hot.left_out
    heavy.judge(hot, seconds=0, late=False)
    clock.now += LATE_S
    heavy.judge(hot, seconds=0, late=True)
    assert not hot.left_out, "it was in time meanwhile"
    assert late(heavy, hot, clock) == {"shops"}
    assert heavy.why == {"shops": "it needs 50% of the time of folds, which come too late"}
    heavy.judge(hot, seconds=0, late=True)
    assert hot.left_out == {"shops"}, "the others get as long again"
    assert late(heavy, hot, clock) == {"shops"}, "the last view stays: no other one would gain"


def test_a_view_is_not_left_out_for_time_that_no_view_needs(clock: Clock) -> None:
    """Such as that of identities."""
    hot, heavy = tail(), HeavyViews(clock)
    heavy.judge(hot, seconds=12, late=True)
    clock.now += LATE_S
    heavy.judge(hot, seconds=12, late=True)
    assert not hot.left_out


def test_a_rest_of_the_log_between_two_late_folds_is_no_lateness(clock: Clock) -> None:
    hot, heavy = tail(), HeavyViews(clock)
    heavy.judge(hot, seconds=0, late=True)
    heavy.in_time()
    clock.now += 10 * LATE_S
    heavy.judge(hot, seconds=0, late=True)
    assert not hot.left_out


def test_a_view_that_needs_little_stays_whatever_makes_folds_late(clock: Clock) -> None:
    clock.cost["before"] = 16
    assert not late(HeavyViews(clock), tail(), clock)


def test_a_view_comes_back_ever_more_rarely_and_only_while_folds_are_in_time(clock: Clock) -> None:
    hot, heavy = tail(), HeavyViews(clock)
    for pause in (AGAIN_S, 2 * AGAIN_S, 4 * AGAIN_S):
        assert late(heavy, hot, clock) == {"shops"}
        back_at = clock.now - sum(clock.cost.values()) + pause
        clock.now = back_at
        assert not heavy.taken_in(hot), "folds are still late"
        heavy.judge(hot, seconds=0, late=False)
        clock.now = back_at - 1
        assert not heavy.taken_in(hot)
        assert hot.left_out == {"shops"}
        clock.now = back_at
        assert heavy.taken_in(hot)
        assert not hot.left_out
        assert not heavy.taken_in(hot), "nothing has changed since"
    for _ in range(9):
        late(heavy, hot, clock)
        heavy.judge(hot, seconds=0, late=False)
        clock.now += 3600
        assert heavy.taken_in(hot), "at least once an hour"


def test_the_view_whose_states_fill_the_memory_stands_aside(clock: Clock) -> None:
    hot, heavy = tail(of=("minutes", "shops", "hops")), HeavyViews(clock)
    (segment,) = hot.segments
    large = {**segment.commit.partials, "shops": bytes(20_000), "minutes": bytes(19_000)}
    hot._put((replace(segment, commit=replace(segment.commit, partials=large)),))

    def left_out_with(most: int) -> frozenset[str]:
        hot.most = most
        for _ in range(2):
            assert not heavy.taken_in(hot)
            heavy.judge(hot, seconds=0, late=False)
        return hot.left_out

    assert not left_out_with(1 << 20)
    assert left_out_with(1) == {"shops"}, "one view each time, because nothing is freed before commits come"
    assert "% of the memory that serving.hot_mb grants" in heavy.why["shops"]
    assert left_out_with(1 << 20) == {"shops"}
    assert left_out_with(1) == {"shops", "minutes"}
    clock.now += 2 * AGAIN_S
    assert left_out_with(1) == {"shops", "minutes"}, "not while the memory is full"
    hot.most = 1 << 20
    assert heavy.taken_in(hot)
    assert not hot.left_out


def test_a_source_of_which_a_view_stands_aside_is_not_healthy() -> None:
    """So the speed layer does not wait before its next commit, which the view's answers need."""
    assert HotSource(1, "sales", 0).healthy
    assert not HotSource(1, "sales", 0, views_aside={"per_shop": "it needs 90% of the time"}).healthy


def test_other_views_stay_ahead_and_answers_of_the_one_aside_stay_where_they_are(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fold of `per_shop` takes 0.6 seconds: too late."""
    folded = HotTail.extend

    def slow(self: HotTail, *args: Any, **kwargs: Any) -> Any:
        beside.seconds += 0.0 if self.left_out else 0.6
        return folded(self, *args, **kwargs)

    def seconds(heavy: HeavyViews, hot: HotTail) -> dict[str | None, float]:
        return {mark: 0.55 if name == "per_shop" else 0.02 for name, mark in hot.task.views.items()}

    monkeypatch.setattr(HotTail, "extend", slow)
    monkeypatch.setattr(HeavyViews, "_seconds", seconds)
    beside.start()

    def stands(view: str) -> Position:
        beside.connection.refresh()
        pinned = beside.connection.snapshot().pinned
        return pinned.snapshot.of(pinned.project.views[view]).tails["sales"].end

    ends = []
    for number in range(4):
        beside.layer.topic.append(some([2 * number, 2 * number + 1]))
        beside.step()
        beside.check()
        ends.append(beside.position)
    assert (stands("per_minute"), stands("per_shop")) == (ends[3], ends[2])
    (status,) = beside.feed.statuses.values()
    assert status.views_aside == {"per_shop": "it needs 92% of the time of folds, which come too late"}
    beside.layer.drain()
    beside.step()
    assert (stands("per_minute"), stands("per_shop")) == (ends[3], ends[3])
    beside.step(later=AGAIN_S)
    (status,) = beside.feed.statuses.values()
    assert not status.views_aside, "it is folded again, and reported, before an event comes"
    beside.layer.topic.append(some([9]))
    beside.step()
    assert stands("per_shop") == beside.position
    assert stands("per_minute") == beside.position
    beside.layer.drain()
    beside.step()
    assert (stands("per_shop"), beside.feed.mismatched) == (beside.layer.end, 0)
    assert beside.feed.compared
