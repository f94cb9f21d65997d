"""No contestant always has the same place, and none always follows the same other one."""

from collections import Counter
from itertools import pairwise

from bench.peers.order import turns

NAMES = ["a", "b", "c", "d", "e", "f"]


def test_every_round_has_every_contestant() -> None:
    assert all(sorted(turns(NAMES, number)) == NAMES for number in range(20))


def test_each_contestant_begins_equally_often() -> None:
    assert Counter(turns(NAMES, number)[0] for number in range(12)) == dict.fromkeys(NAMES, 2)


def test_consecutive_rounds_reverse_who_follows_whom() -> None:
    first, second = turns(NAMES, 0), turns(NAMES, 1)
    after = {(one, other) for order in (first, second) for one, other in pairwise(order)}
    assert ("c", "d") in after
    assert ("d", "c") in after


def test_a_lone_contestant_has_every_turn() -> None:
    assert turns(["a"], 3) == ["a"]
