"""Each question by each system in turn, on topics that are filled before: how fast, at what cost, and how many rows are wrong."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from rich.table import Table

from tandem.bench.commands import until_ended
from tandem.bench.peers.contestant import Setting
from tandem.bench.peers.rounds import Arena, filled
from tandem.bench.peers.running import Quiet, started
from tandem.bench.process_tree import Sampler
from tandem.bench.together.questions import QUESTIONS, TogetherQuestion
from tandem.bench.together.streams import Answers, Streams, at_the_end, differing, generate, truth, values
from tandem.bench.together.systems import SYSTEMS, TANDEM, System, tandem
from tandem.views.errors import TandemError

_POLL_S: Final = 0.25
_LIMIT_S: Final = 300.0
"""The most seconds of a run."""
_BEFORE: Final = timedelta(hours=9)


@dataclass(frozen=True)
class TogetherScale:
    """How many advertisements are seen, of how many."""

    sights: int
    ads: int


FULL: Final = TogetherScale(600_000, 2_000)
QUICK: Final = TogetherScale(100_000, 500)


@dataclass(frozen=True)
class TogetherRun:
    """One run. `seconds` are from when it read to its last publication, `cpu_s` what its processes used in them.

    `wrong` are the rows that differ from the truth once it publishes no more, of `rows`; `recomputed` those after Tandem's next
    recompute. A figure that was not reached is None, and `problem` gives the reason.
    """

    system: str
    question: str
    events: int
    rows: int
    seconds: float | None = None
    cpu_s: float | None = None
    peak_bytes: int | None = None
    wrong: int | None = None
    recomputed: int | None = None
    problem: str = ""


def measure(arena: Arena, scale: TogetherScale) -> Iterator[TogetherRun]:
    """Every question by every system."""
    base: datetime = arena.now.replace(minute=0, second=0, microsecond=0) - _BEFORE
    streams = generate(Streams(scale.sights, scale.ads, base))
    for topic, events in streams.items():
        arena.say(f"sending {events.num_rows:,} events to {topic}")
        filled(arena.connection, topic, values(events))
    for question in QUESTIONS:
        right = truth(question.truth, streams)
        events = sum(streams[topic].num_rows for topic in question.topics)
        for system in SYSTEMS:
            arena.say(f"{question.name}: {system.name}")
            setting = arena.setting(f"{question.name}-{system.name}", question.topics[0], fresh=False, number=0)
            run = TogetherRun(system.name, question.name, events, len(right))
            try:
                yield _measure(run, system, question, setting, right)
            except TandemError as error:
                yield replace(run, problem=str(error))


def _measure(run: TogetherRun, system: System, question: TogetherQuestion, setting: Setting, right: Answers) -> TogetherRun:
    setting.folder.mkdir(parents=True)
    log = setting.folder / "log"
    with started(system.command(setting, question), setting.folder, "log") as process:
        with Sampler(lambda: [process.pid]) as used:
            last, answers = _at_the_end(system, question, setting, process)
        ready = system.ready(setting, log)
        assert ready is not None, f"{system.name} published before it was ready; its log is {log}"
        run = replace(
            run,
            seconds=last - ready,
            cpu_s=used.cpu_at(last) - used.cpu_at(ready),
            peak_bytes=used.peak_bytes,
            wrong=differing(right, answers),
        )
        if system is TANDEM:
            for command in ("archive", "recompute"):
                with started(tandem(setting, question, command), setting.folder, f"{command}.log") as batch:
                    until_ended(batch, _LIMIT_S, setting.folder)
            run = replace(run, recomputed=differing(right, system.read(setting, question)))
    return run


def _at_the_end(
    system: System, question: TogetherQuestion, setting: Setting, process: "subprocess.Popen[bytes]"
) -> tuple[float, Answers]:
    """Wait until a system publishes no more and has come to the end; when it published last, and its answers.

    Raises TandemError.
    """
    quiet, before, last = Quiet(lambda: system.version(setting), time.time()), None, 0.0
    deadline = time.time() + _LIMIT_S
    while time.time() < deadline and process.poll() is None:
        if (now := system.version(setting)) != before:
            before, last = now, time.time()
        if quiet.reached(time.time()) and at_the_end(answers := system.read(setting, question)):
            return last, answers
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
    raise TandemError(f"{system.name} did not come to the end within {_LIMIT_S:.0f} s; its log is {setting.folder / 'log'}")


def document(runs: Sequence[TogetherRun]) -> dict[str, Any]:
    """Every run, and whether Tandem's answers were right after its recompute."""
    runs_of_tandem = [run for run in runs if run.system == TANDEM.name]
    return {
        "runs": [asdict(run) for run in runs],
        "right": bool(runs_of_tandem) and all(run.recomputed == 0 for run in runs_of_tandem),
    }


def table(runs: Sequence[TogetherRun]) -> Table:
    """The runs for a terminal."""
    shown = Table("question", "system", "events/s", "CPU s/million", "peak MB", "wrong rows", "after recompute", box=None)
    for run in runs:
        shown.add_row(
            run.question,
            run.system,
            "-" if not run.seconds else f"{run.events / run.seconds:,.0f}",
            "-" if run.cpu_s is None else f"{run.cpu_s / run.events * 1e6:.1f}",
            "-" if run.peak_bytes is None else f"{run.peak_bytes / 1e6:,.0f}",
            run.problem or f"{run.wrong:,} of {run.rows:,}",
            "" if run.recomputed is None else f"{run.recomputed:,}",
        )
    return shown
