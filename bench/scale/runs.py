"""A run of `bench scale`, and what it measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

What = Literal["archive", "recompute", "catch-up"]


@dataclass(frozen=True)
class Case:
    """What one run is: its number of executors, each with a share of a core, and the number of partitions of its topic."""

    what: What
    partitions: int
    executors: int
    share: float
    round: int


@dataclass(frozen=True)
class ExecutorsRun:
    """One run: `events` in `seconds`. `differ` answers are wrong.

    `seconds` are those of the copy of an archive, of the fold of a recompute, or from the first micro-batch's commit of a
    catch-up to the last one's. In about that time `cpu` are the CPU seconds of each part, and `machine` is how many cores all
    programs of the machine kept busy. `whole_s` is the command's time with the start of Spark. `requests` are those to the store:
    of a command, or of each micro-batch of a catch-up.
    """

    case: Case
    events: int
    seconds: float
    whole_s: float
    cpu: Mapping[str, float] = field(hash=False)
    machine: float
    requests: Mapping[str, float] = field(hash=False)
    differ: int

    @property
    def per_second(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def busy(self) -> float:
        """How many cores the platform's processes kept busy, on average."""
        return sum(self.cpu.values()) / self.seconds
