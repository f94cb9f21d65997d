"""One question by one system, on topics that are filled before: how fast, at what cost, and how many rows are wrong."""

import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from tandem.bench.commands import until_ended
from tandem.bench.peers.contestant import Setting
from tandem.bench.peers.rounds import Arena
from tandem.bench.peers.running import Quiet, started
from tandem.bench.process_tree import Sampler
from tandem.bench.together.questions import TogetherQuestion
from tandem.bench.together.streams import Answers, at_the_end, differing
from tandem.bench.together.systems import TANDEM, System, tandem
from tandem.views.errors import TandemError

POLL_S: Final = 0.25
LIMIT_S: Final = 300.0
"""The most seconds of a run."""


@dataclass(frozen=True)
class TogetherRun:
    """One run. `seconds` are from when it read to its last publication, `cpu_s` what its processes used in them.

    `wrong` are the rows that differ from the truth once it publishes no more, of `rows`; `recomputed` those after Tandem's next
    recompute, in turn 0. A figure that was not reached is None, and `problem` gives the reason.
    """

    system: str
    question: str
    turn: int
    events: int
    rows: int
    seconds: float | None = None
    cpu_s: float | None = None
    peak_bytes: int | None = None
    wrong: int | None = None
    recomputed: int | None = None
    problem: str = ""


def measure_run(arena: Arena, run: TogetherRun, system: System, question: TogetherQuestion, right: Answers) -> TogetherRun:
    """The run, measured."""
    setting = arena.setting(f"{question.name}-{system.name}", question.topics[0], fresh=False, number=run.turn)
    try:
        return _measure(run, system, question, setting, right)
    except TandemError as error:
        return replace(run, problem=str(error))


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
        if system is TANDEM and run.turn == 0:
            recompute(setting, question)
            run = replace(run, recomputed=differing(right, system.read(setting, question)))
    return run


def recompute(setting: Setting, question: TogetherQuestion) -> int:
    """Archive and recompute; the peak of these commands in bytes. Raises TandemError if one fails."""
    peaks = []
    for command in ("archive", "recompute"):
        with (
            started(tandem(setting, question, command), setting.folder, f"{command}.log") as batch,
            Sampler(lambda pid=batch.pid: [pid]) as used,  # type: ignore[misc]
        ):
            until_ended(batch, LIMIT_S, setting.folder)
        peaks.append(used.peak_bytes)
    return max(peaks)


def _at_the_end(
    system: System, question: TogetherQuestion, setting: Setting, process: "subprocess.Popen[bytes]"
) -> tuple[float, Answers]:
    """Wait until a system publishes no more and has come to the end; when it published last, and its answers.

    Raises TandemError.
    """
    quiet, before, last = Quiet(lambda: system.version(setting), time.time()), None, 0.0
    deadline = time.time() + LIMIT_S
    while time.time() < deadline and process.poll() is None:
        if (now := system.version(setting)) != before:
            before, last = now, time.time()
        if quiet.reached(time.time()) and at_the_end(answers := system.read(setting, question), question.counts):
            return last, answers
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
    raise TandemError(f"{system.name} did not come to the end within {LIMIT_S:.0f} s; its log is {setting.folder / 'log'}")
