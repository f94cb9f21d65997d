"""What each further executor gains, by the clock and by CPU seconds, and where the gain bends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median
from typing import Final

from tandem.bench.scale.runs import ExecutorsRun, What

_BUSY: Final = 0.85
_WORTH: Final = 0.5
"""An executor that adds less than this part of the first one's rate is past the bend."""


@dataclass(frozen=True)
class GainStep:
    """N executors, over the medians of the rounds, for as many events as the first run had.

    `times` is how many times as fast as one they are by the clock, and `by_cpu` by CPU seconds: as if executors and driver, who
    work in turn, had a core each. The CPU seconds are of a million events. In `busy` of its time the driver computed.
    """

    executors: int
    seconds: float
    times: float
    by_cpu: float
    executors_cpu: float
    driver_cpu: float
    busy: float

    @property
    def efficiency(self) -> float:
        """The gain of each executor: 1 if N are N times as fast as one."""
        return self.times / self.executors


@dataclass(frozen=True)
class Gain:
    """What further executors gain in one kind of run. `fixed_s` is what none of them shortens: seconds = fixed + work / N.

    With the most executors, `machine` of all `cores` were busy, `own` of them with Tandem, store and broker.
    """

    what: What
    partitions: int
    share: float
    steps: tuple[GainStep, ...]
    fixed_s: float
    own: float
    machine: float
    cores: int

    @property
    def bend(self) -> int | None:
        """The number of executors of which the last one adds less than half of the first one's rate; None if each adds more."""
        rates = [(step.executors, step.times) for step in self.steps]
        return next(
            (more for (few, slow), (more, fast) in pairwise(rates) if fast - slow < _WORTH * (more - few)),
            None,
        )

    @property
    def limit(self) -> str:
        """What keeps the most executors from being as many times as fast as one."""
        most = self.steps[-1]
        there = f"{self.machine:.1f} of {self.cores} cores were busy, {self.own:.1f} of them with this"
        if self.share == 1 and self.machine >= _BUSY * self.cores:
            return f"the machine; {there}"
        return (
            f"what does not run in tasks side by side, {self.fixed_s:.1f} of {most.seconds:.1f} s "
            f"({self.fixed_s / most.seconds:.0%}); the driver computed for {most.busy:.0%} of the time; {there}"
        )


def gains(runs: Sequence[ExecutorsRun], cores: int) -> Iterator[Gain]:
    """Of every kind of run that was done with one executor and with more."""
    for what, partitions, share in dict.fromkeys((run.case.what, run.case.partitions, run.case.share) for run in runs):
        own = [run for run in runs if (run.case.what, run.case.partitions, run.case.share) == (what, partitions, share)]
        numbers = sorted({run.case.executors for run in own})
        if numbers[0] != 1 or len(numbers) == 1:
            continue
        by_number = [[run for run in own if run.case.executors == number] for number in numbers]
        steps = tuple(_step(number, some, by_number[0]) for number, some in zip(numbers, by_number, strict=True))
        last = by_number[-1]
        busy, machine = median(run.busy for run in last), median(run.machine for run in last)
        yield Gain(what, partitions, share, steps, _intercept(steps), busy, machine, cores)


def _step(number: int, some: Sequence[ExecutorsRun], first: Sequence[ExecutorsRun]) -> GainStep:
    events, million = first[0].events, median(run.events for run in some) / 1e6
    slow, fast = (median(run.seconds / run.events for run in each) * events for each in (first, some))
    alone, together = (median(_by_cpu(run) / run.events for run in each) for each in (first, some))
    driver = median(run.cpu["driver"] for run in some)
    busy = median(run.cpu["driver"] / (run.case.share * run.seconds) for run in some)
    return GainStep(
        number,
        fast,
        slow / fast,
        alone / together,
        median(run.cpu["executors"] for run in some) / million,
        driver / million,
        busy,
    )


def _by_cpu(run: ExecutorsRun) -> float:
    """Seconds in which executors of a core each, and then the driver, do the run's work."""
    return run.cpu["executors"] / run.case.executors + run.cpu["driver"]


def _intercept(steps: Sequence[GainStep]) -> float:
    """The seconds at infinitely many executors, by least squares over 1 / N; between 0 and the fewest seconds."""
    shares, seconds = [1 / step.executors for step in steps], [step.seconds for step in steps]
    middle, high = mean(shares), mean(seconds)
    slope = sum((share - middle) * (each - high) for share, each in zip(shares, seconds, strict=True))
    slope /= sum((share - middle) ** 2 for share in shares)
    return min(max(0.0, high - slope * middle), *seconds)


def lines_of(gain: Gain) -> Iterator[str]:
    """A gain for a person."""
    what = f"{gain.what}, {gain.partitions} partitions, executors of {gain.share:g} core"
    for step in gain.steps:
        yield (
            f"{what}: with {step.executors}, {step.times:.2f} times as fast as with one (by CPU {step.by_cpu:.2f}), efficiency "
            f"{step.efficiency:.2f}; CPU seconds a million: executors {step.executors_cpu:.1f}, driver {step.driver_cpu:.1f}, "
            f"which computed for {step.busy:.0%} of the time"
        )
    bends = f"bends at {gain.bend}" if gain.bend else f"does not bend up to {gain.steps[-1].executors}"
    yield f"{what}: {bends}; limit: {gain.limit}"
