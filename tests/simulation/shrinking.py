"""A wrong schedule made short: whatever can be left out of it is, as long as the same law stays broken."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.simulation.draws import Site
from tests.simulation.simulation import STEPS, Simulation, Wrong

_SECONDS = 60.0


@dataclass(frozen=True)
class Shrunk:
    """The shortest wrong schedule that was found: what was left out of the seed's, and how many steps and faults are left."""

    wrong: Wrong
    without: frozenset[Site]
    left: int
    whole: int

    def __str__(self) -> str:
        return (
            f"{self.wrong.law}\nThe shortest schedule of seed {self.wrong.seed} that does it has {self.left} of {self.whole} "
            "steps, stops and faults:\n" + "\n".join(f"  {line}" for line in self.wrong.trace)
        )


def shrink(
    seed: int, *, steps: int = STEPS, of: Callable[..., Simulation] = Simulation, clock: Callable[[], float] = time.monotonic
) -> Shrunk | None:
    """Shrink the schedule of a seed for at most a minute; None if it is not wrong."""
    until = clock() + _SECONDS
    first = of(seed)
    wrong = _wrong(first, steps)
    if wrong is None:
        return None
    best, run, without = wrong, first, frozenset[Site]()

    def still(gone: frozenset[Site]) -> bool:
        """Whether the law stays broken without these too; if so, they are left out from here on."""
        nonlocal best, run, without
        one = of(seed, without | gone, first.decided)
        found = _wrong(one, steps)
        if found is None or _kind(found) != _kind(wrong):
            return False
        best, run, without = found, one, without | gone
        return True

    length = len(run.drawn)
    while length:
        before = len(run.drawn)
        # The last ones first: what comes after the fault is never needed.
        for gone in _pieces(run.drawn, length):
            if clock() > until:
                return Shrunk(best, without, len(run.drawn), len(first.drawn))
            still(gone)
        if len(run.drawn) == before or length > 1:
            length //= 2
    return Shrunk(best, without, len(run.drawn), len(first.drawn))


def _wrong(one: Simulation, steps: int) -> Wrong | None:
    try:
        one.run(steps)
    except Wrong as wrong:
        return wrong
    return None


def _pieces(drawn: Sequence[Site], length: int) -> list[frozenset[Site]]:
    return [frozenset(drawn[start : start + length]) for start in reversed(range(0, len(drawn), length))]


def _kind(wrong: Wrong) -> str:
    """The law that was broken, without what differs from schedule to schedule."""
    return re.sub(r"\d+", "#", wrong.law)[:24]
