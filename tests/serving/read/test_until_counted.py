"""A wait for positions ends when exactly these are counted, whatever others send."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tandem.serving.read.outcome import Failed
from tandem.serving.read.snapshot_follower import SnapshotFollower, uncounted, until_counted
from tests.serving.world import World, hit, nine_hits, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@dataclass
class Clock:
    """A clock that each pause advances by one second; `at` has what happens then."""

    at: Mapping[int, Sequence[Callable[[], Any]]] = field(default_factory=dict)
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds

    def pause(self, _: float) -> None:
        self.seconds += 1
        for happens in self.at.get(int(self.seconds), []):
            happens()


def test_only_the_given_positions_are_waited_for(world: World) -> None:
    """Others send all the time, to both partitions, so that there always is a lag."""
    world.append(0, hit("/a", 1), hit("/a", 2))
    mine = {"hits": position(2)}

    def others() -> None:
        world.append(0, hit("/b", 3))
        world.append(1, hit("/b", 4))

    clock = Clock({1: [others], 3: [lambda: world.trigger(position(1, 1)), others], 5: [lambda: world.trigger(position(2, 1))]})
    assert until_counted(world.tables, mine, seconds=60, clock=clock, pause=clock.pause) == 0
    assert clock.seconds == 5
    assert world.end == position(4, 2)


def test_after_the_limit_the_number_of_uncounted_offsets_is_returned(world: World) -> None:
    world.append(0, hit("/a", 1), hit("/a", 2), hit("/a", 3))
    world.trigger(position(1))
    clock = Clock()
    assert until_counted(world.tables, {"hits": position(3)}, seconds=7, clock=clock, pause=clock.pause) == 2
    assert clock.seconds == 7
    assert until_counted(world.tables, {"another": position(3, 1)}, seconds=0.5, clock=clock, pause=clock.pause) == 4


def test_nothing_is_counted_before_the_first_publication() -> None:
    assert uncounted(Failed("nothing is published yet"), {"hits": position(3), "more": position(1)}) == 4


def test_the_number_is_the_offsets_below_the_positions_that_answers_lack(tmp_path: Path) -> None:
    """Nine are counted in the first partition, none in the others."""
    found = SnapshotFollower(nine_hits(tmp_path).tables).refresh()
    for offsets in product(range(12), (0, 1, 7), (0, 3)):
        lacks = sum(max(0, offset - counted) for offset, counted in zip(offsets, (9, 0, 0), strict=True))
        assert uncounted(found, {"hits": position(*offsets)}) == lacks
