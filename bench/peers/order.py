"""The order in which contestants take turns."""

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


def turns(contestants: Sequence[_T], number: int) -> list[_T]:
    """The order of round `number`: each round begins with the next contestant, and every second round goes backwards.

    So no contestant always follows the same other one.
    """
    start = number % len(contestants)
    forwards = [*contestants[start:], *contestants[:start]]
    return forwards if number % 2 == 0 else [forwards[0], *reversed(forwards[1:])]
