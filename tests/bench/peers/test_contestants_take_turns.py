"""No contestant always has the same place, and none always follows the same other one."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tandem.bench.peers import rounds
from tandem.bench.peers.contestants.batch import Job
from tandem.bench.peers.contestants.registry import STREAMING
from tandem.bench.peers.rounds import turns

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


def test_a_lack_of_time_costs_no_peer_a_run() -> None:
    scale, nothing = rounds.FULL, Path("unused")
    arena: Any = SimpleNamespace(folder=nothing)
    setting: Any = None
    planned = list(rounds.runs(arena, scale, {}, Job(setting, (), 1, nothing)))
    last = [run.contestant for run in planned[-len(scale.served) :]]
    assert last == [one.name for one in scale.served]
    assert not set(last) & {run.contestant for run in planned[: -len(scale.served)]}
    for one in STREAMING:
        parts = [(run.round, run.part) for run in planned if run.contestant == one.name and run.part in ("catch-up", "freshness")]
        assert parts == [(number, part) for number in range(scale.rounds) for part in ("catch-up", "freshness")]
