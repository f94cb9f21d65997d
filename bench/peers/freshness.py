"""Freshness: the time from sending an event to a reader that sees it counted, at a steady rate, after a warm-up by triggers."""

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tandem.bench.peers.contestant import Contestant, ContestantOutput, Setting
from tandem.bench.peers.events import truth
from tandem.bench.peers.live_load import LiveLoad
from tandem.bench.peers.running import NotRight, Running, running, started, until_right
from tandem.bench.process_tree import Sampler, stop
from tandem.infra import kafka

_LOOK_S: Final = 0.02
_SETTLE_S: Final = 4.0
"""Seconds after the last question that do not count as a time without any: a contestant may keep its pace for a while."""
_BACKLOG_S: Final = 5.0


@dataclass(frozen=True)
class FreshnessPlan:
    """A run: events a second and their pages, publications of the warm-up, its least and its most seconds, seconds of the window.

    A marker follows `mark_every_s` after another on average. The first may take `first_limit_s` until it is seen, which includes
    the start; what follows the window may take `limit_s` twice. Where the reader asks the contestant itself, the same load
    arrives for `unasked_s` more without it.
    """

    rate: float
    pages: int
    warm_up: int
    warm_up_s: float
    warm_up_limit_s: float
    window_s: float
    unasked_s: float
    mark_every_s: float
    first_limit_s: float
    limit_s: float


@dataclass(frozen=True)
class Fresh:
    """One run. `delays` are seconds from sending to being seen, of the markers sent in the window; `overdue` were never seen.

    `triggers` is how many publications the warm-up saw. `cpu` and `reader_cpu` are CPU seconds for each second of the window: of
    the contestant's processes, and of the reader's. `unasked_cpu` is `cpu` while the same load arrives and nobody asks; None if
    the reader does not ask the contestant.
    """

    contestant: str
    round: int
    delays: Sequence[float] = ()
    overdue: int = 0
    triggers: int = 0
    first_s: float | None = None
    cpu: float | None = None
    reader_cpu: float | None = None
    broker_cpu: float | None = None
    unasked_cpu: float | None = None
    peak_bytes: int | None = None
    rows: int = 0
    differ: int | None = None
    problem: str = ""
    part: Literal["freshness"] = "freshness"


def measure(contestant: Contestant, setting: Setting, plan: FreshnessPlan, *, number: int, broker: int) -> Fresh:
    """Run a contestant on a topic that is filled meanwhile; `broker` is the broker's process id."""
    output = contestant.output(setting)
    with running(contestant, setting) as run, kafka.Sender(setting.connection.address) as sender:
        load = LiveLoad(sender, setting.topic, plan.pages, plan.rate, plan.mark_every_s, seed=number)
        with (
            started(contestant.reader(setting), setting.folder, "reader.err", output=subprocess.PIPE) as reader,
            Sampler(lambda: [run.process.pid]) as own,
            Sampler(lambda: [reader.pid], memory=False) as reading,
            Sampler(lambda: [broker], memory=False) as beside,
            load,
        ):
            seen = MarkerSeen(reader)
            try:
                _until(lambda: bool(seen.at), run, plan.first_limit_s, "no marker was seen")
                first = time.time() - run.began
                triggers = _warm_up(output, run, plan, lambda: _backlog(load, seen))
                start = time.time()
                end = start + plan.window_s
                _until(lambda: time.time() >= end, run, plan.window_s + 1, "")
                waited = [path for path, at in list(load.marked.items()) if start <= at < end]
                if not contestant.asked:
                    load.stop()
                _until(lambda: all(path in seen.at for path in waited), run, plan.limit_s, "", required=False)
                unasked = _unasked(run, reader, own, plan.unasked_s) if contestant.asked else None
                load.stop()
                expected = truth(load.events())
                until_right(output, expected, run, time.time() + plan.limit_s)
            except NotRight as wrong:
                return Fresh(contestant.name, number, differ=wrong.differ, problem=str(wrong))
    seconds = end - start
    return Fresh(
        contestant.name,
        number,
        delays=[seen.at[path] - load.marked[path] for path in waited if path in seen.at],
        overdue=sum(path not in seen.at for path in waited),
        triggers=triggers,
        first_s=first,
        cpu=(own.cpu_at(end) - own.cpu_at(start)) / seconds,
        reader_cpu=(reading.cpu_at(end) - reading.cpu_at(start)) / seconds,
        broker_cpu=(beside.cpu_at(end) - beside.cpu_at(start)) / seconds,
        unasked_cpu=unasked,
        peak_bytes=own.peak_bytes,
        rows=len(expected),
        differ=0,
    )


class MarkerSeen:
    """When the reader saw each marker, from the lines that it prints."""

    def __init__(self, reader: "subprocess.Popen[bytes]") -> None:
        self.at: dict[str, float] = {}
        assert reader.stdout is not None
        self._lines = reader.stdout
        threading.Thread(target=self._run, name="seen", daemon=True).start()

    def _run(self) -> None:
        for line in self._lines:
            path, at = line.split()
            self.at[path.decode()] = float(at)


def _backlog(load: LiveLoad, seen: MarkerSeen) -> bool:
    """Whether a marker of more than five seconds ago is not seen yet, as while a contestant catches up with its own start."""
    before = time.time() - _BACKLOG_S
    return any(at < before and path not in seen.at for path, at in list(load.marked.items()))


def _warm_up(output: ContestantOutput, run: Running, plan: FreshnessPlan, backlog: Callable[[], bool]) -> int:
    """Wait for the plan's publications, its least seconds and the end of the backlog, at most as long as it allows.

    Whoever publishes ten times a second has the publications before its JVM is warm. Returns how many there were.
    """
    triggers, before = 0, output.version()
    start = time.time()
    least, deadline = start + plan.warm_up_s, start + plan.warm_up_limit_s
    while (triggers < plan.warm_up or time.time() < least or backlog()) and time.time() < deadline:
        _alive(run)
        time.sleep(_LOOK_S)
        if (version := output.version()) != before:
            before, triggers = version, triggers + 1
    return triggers


def _unasked(run: Running, reader: "subprocess.Popen[bytes]", own: Sampler, seconds: float) -> float:
    """End the reader; the contestant's CPU seconds for each second of the time that follows."""
    stop(reader)
    start = time.time() + _SETTLE_S
    end = start + seconds
    _until(lambda: time.time() >= end, run, _SETTLE_S + seconds + 1, "")
    return (own.cpu_at(end) - own.cpu_at(start)) / seconds


def _until(done: Callable[[], bool], run: Running, seconds: float, what: str, *, required: bool = True) -> None:
    deadline = time.time() + seconds
    while not done():
        _alive(run)
        if time.time() > deadline:
            if required:
                raise NotRight(f"{what} within {seconds:.0f} s; its log is {run.log}")
            return
        time.sleep(_LOOK_S)


def _alive(run: Running) -> None:
    if (code := run.process.poll()) is not None:
        raise NotRight(f"it ended with exit code {code}; its log is {run.log}")
