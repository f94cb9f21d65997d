"""Catch-up: a contestant starts on a topic that is filled already, and is done when its view equals the truth."""

from dataclasses import dataclass
from typing import Literal

from tandem.bench.peers.contestant import Contestant, Setting
from tandem.bench.peers.events import Answers
from tandem.bench.peers.running import NotRight, running, until_right
from tandem.bench.process_tree import Sampler


@dataclass(frozen=True)
class CaughtUp:
    """One run. Seconds are from the start of the process until it reads (`start_s`), and from there to its last publication.

    `cpu_s` is what its processes used in the latter, `broker_cpu_s` what the broker used for it. `peak_bytes` is the largest
    proportional set size of its processes. A figure that was not reached is None, and `problem` gives the reason.
    """

    contestant: str
    round: int
    events: int
    start_s: float | None = None
    seconds: float | None = None
    cpu_s: float | None = None
    start_cpu_s: float | None = None
    broker_cpu_s: float | None = None
    peak_bytes: int | None = None
    rows: int = 0
    differ: int | None = None
    problem: str = ""
    part: Literal["catch-up"] = "catch-up"

    @property
    def whole_s(self) -> float | None:
        """Seconds from the start of the process to its last publication."""
        return None if self.start_s is None or self.seconds is None else self.start_s + self.seconds

    @property
    def per_second(self) -> float | None:
        """Events a second."""
        return self.events / self.seconds if self.seconds else None


def catch_up(
    contestant: Contestant, setting: Setting, truth: Answers, *, events: int, number: int, broker: int, limit_s: float
) -> CaughtUp:
    """Run a contestant until its view equals the truth, at most `limit_s` seconds; `broker` is the broker's process id."""
    with (
        running(contestant, setting) as run,
        Sampler(lambda: [run.process.pid]) as own,
        Sampler(lambda: [broker], memory=False) as beside,
    ):
        try:
            last = until_right(contestant.output(setting), truth, run, run.began + limit_s)
        except NotRight as wrong:
            return CaughtUp(contestant.name, number, events, rows=len(truth), differ=wrong.differ, problem=str(wrong))
    ready = run.ready_at(contestant, setting)
    assert ready is not None, f"{contestant.name} published before it was ready; its log is {run.log}"
    return CaughtUp(
        contestant.name,
        number,
        events,
        start_s=ready - run.began,
        seconds=last - ready,
        cpu_s=own.cpu_at(last) - own.cpu_at(ready),
        start_cpu_s=own.cpu_at(ready),
        broker_cpu_s=beside.cpu_at(last) - beside.cpu_at(ready),
        peak_bytes=own.peak_bytes,
        rows=len(truth),
        differ=0,
    )
