"""Many schedules on every core: how many ran, which seeds are wrong, which steps were interleaved."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.simulation.pairs import Pair
from tests.simulation.simulation import Simulation, Wrong
from tests.simulation.world import surroundings

_AT_ONCE = 100
"""Schedules that a process runs before it reports."""


@dataclass
class Ran:
    """What some schedules came to: `calls` counts their I/O calls, `wrong` has the broken law of each wrong seed.

    `ended` counts by kind of error what ended processes, `lossy` the schedules whose log loses records, `gaps` those in which a
    loss was named, and `anew` those whose topic was created again.
    """

    schedules: int = 0
    calls: int = 0
    lossy: int = 0
    gaps: int = 0
    anew: int = 0
    wrong: dict[int, str] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)
    pairs: Counter[Pair] = field(default_factory=Counter)

    def add(self, other: "Ran") -> None:
        self.schedules += other.schedules
        self.calls += other.calls
        self.lossy += other.lossy
        self.gaps += other.gaps
        self.anew += other.anew
        self.wrong |= other.wrong
        self.ended.update(other.ended)
        self.pairs.update(other.pairs)


def ran(seeds: Sequence[int]) -> Ran:
    """Run the schedules of these seeds in this process."""
    whole = Ran()
    with surroundings():
        for seed in seeds:
            one = Simulation(seed)
            try:
                one.run()
            except Wrong as wrong:
                whole.wrong[seed] = wrong.law
            told = Ran(1, one.calls, one.lossy, bool(one.world.missing), one.world.topics > 1, {}, one.stopped, one.pairs)
            whole.add(told)
    return whole


def many(first: int, *, schedules: int | None, seconds: float | None, processes: int | None = None) -> Iterator[Ran]:
    """What has run so far, each time a process reports, of the schedules from this seed on: so many, or so long, or for ever."""
    whole, number = Ran(), processes or os.cpu_count() or 1
    until = None if seconds is None else time.monotonic() + seconds
    # New processes: a fork would inherit threads that do not run in it.
    with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
        running: set[Future[Ran]] = set()
        begun = 0
        while True:
            while (
                len(running) < number and (schedules is None or begun < schedules) and (until is None or time.monotonic() < until)
            ):
                count = _AT_ONCE if schedules is None else min(_AT_ONCE, schedules - begun)
                running.add(pool.submit(ran, range(first + begun, first + begun + count)))
                begun += count
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                whole.add(one.result())
            yield whole


def repeated_by(seed: int) -> str:
    """The command that repeats the schedule of a seed."""
    return f"./tandem test -- tests/simulation/test_any_seed.py --seed {seed} -n 0 -s"
