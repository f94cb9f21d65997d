"""Folds come fast while somebody asks for answers, and seldom while nobody does."""

import os
import threading

import msgspec
import pytest

from tandem.infra.settings import ServingSettings
from tandem.speed.hot.__main__ import LATELY_S, Demand
from tests.speed.hot.beside import Beside, beside, layer
from tests.speed.sales import some

__all__ = ["beside", "layer"]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_question_counts_for_a_while_and_ends_a_wait(clock: Clock) -> None:
    demand, (read, write) = Demand(clock), os.pipe()
    following = threading.Thread(target=demand.follow, args=(read,))
    following.start()
    try:
        assert not demand.there()
        waiting = threading.Thread(target=demand.wait, args=(600,))
        waiting.start()
        while waiting.is_alive():  # a question that comes before the wait does not end it
            os.write(write, b"?")
            waiting.join(0.05)
        assert demand.there()
        clock.now += LATELY_S
        assert not demand.there()
    finally:
        os.close(write)
        following.join(60)
        os.close(read)
    assert not following.is_alive()


def folds(beside: Beside, number: int, *, after: float = 0.0) -> bool:
    """Append a sale, let `after` seconds pass, and return whether the tail then folds."""
    beside.layer.topic.append(some([number]))
    beside.seconds += after
    return beside.hot.step(0)


def test_while_nobody_asks_folds_are_seldom_and_the_next_question_ends_the_pause(beside: Beside) -> None:
    asked = False
    beside.start()
    beside.hot.asked = lambda: asked
    assert folds(beside, 1)
    assert not folds(beside, 2, after=0.2)
    asked = True
    assert beside.hot.step(0)
    assert folds(beside, 3, after=0.1)
    asked = False
    assert not folds(beside, 4, after=0.24)
    beside.seconds += 0.01
    assert beside.hot.step(0)
    beside.check()


def test_seldom_polls_of_the_tables_do_not_slow_folds(beside: Beside) -> None:
    beside.start()
    beside.hot.settings = msgspec.structs.replace(beside.hot.settings, serving=ServingSettings(poll_ms=60_000))
    beside.hot.cpu = lambda: 0.0
    assert folds(beside, 1)
    assert not folds(beside, 2, after=0.005)
    beside.seconds += 0.005
    assert beside.hot.step(0)
    beside.check()


def test_a_question_during_the_pause_is_not_waited_for(beside: Beside) -> None:
    asked = False

    def sleep(_: float) -> None:
        nonlocal asked
        asked = True
        beside.seconds += 0.01

    beside.start()
    beside.hot.asked, beside.hot.sleep = (lambda: asked), sleep
    beside.layer.topic.append(some([1]))
    assert beside.hot.step(0.2)
    beside.layer.topic.append(some([2]))
    beside.seconds += 0.03
    assert beside.hot.step(0.2)
