"""Batch: the whole view again from the events table in a warm process, and the topic archived once in a process of its own."""

import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Literal

from tandem.bench.peers.contestant import ContestantCommand, Setting
from tandem.bench.peers.contestants import tandem
from tandem.bench.peers.contestants.batch import BatchContestant, Job, archived
from tandem.bench.peers.events import Answers, differing
from tandem.bench.peers.running import started
from tandem.bench.process_tree import Sampler
from tandem.views.errors import TandemError

BatchPart = Literal["recompute", "archive"]


@dataclass(frozen=True)
class PeersRecompute:
    """One process: the median of its repetitions without the first in seconds, their mean in CPU seconds, which are sampled more
    seldom than some repeat; `start_s` is until the first.

    A process of the part `archive` has one repetition, which counts. A figure that was not reached is None, and `problem` gives
    the reason.
    """

    contestant: str
    round: int
    events: int
    start_s: float | None = None
    first_s: float | None = None
    seconds: float | None = None
    cpu_s: float | None = None
    peak_bytes: int | None = None
    rows: int = 0
    differ: int | None = None
    problem: str = ""
    part: BatchPart = "recompute"

    @property
    def per_second(self) -> float | None:
        """Events a second."""
        return self.events / self.seconds if self.seconds else None


def archive(setting: Setting, repeat: int, limit_s: float) -> Job:
    """Archive the topic by Tandem's own command. Raises TandemError if it fails."""
    setting.folder.mkdir(parents=True, exist_ok=True)
    words = (sys.executable, "-m", "tandem.cli", "archive", "--project", str(tandem.project(setting)), "--json")
    with started(ContestantCommand(words, tandem.environment(setting)), setting.folder, "archive.log") as process:
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise TandemError(f"the topic was not archived within {limit_s:.0f} s; see {setting.folder}/archive.log") from None
    if code:
        raise TandemError(f"the topic could not be archived (exit code {code}); see {setting.folder}/archive.log")
    return archived(setting, repeat)


def recompute(
    contestant: BatchContestant, job: Job, truth: Answers, *, events: int, number: int, limit_s: float
) -> PeersRecompute:
    """Run a contestant in a process of its own, in the job's folder, which it creates."""
    folder = job.folder
    folder.mkdir(parents=True)
    began = time.time()
    with (
        started(contestant.command(job), folder, "log") as process,
        Sampler(lambda: [process.pid]) as own,
    ):
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return PeersRecompute(
                contestant.name, number, events, problem=f"not within {limit_s:.0f} s; its log is {folder / 'log'}"
            )
    runs = spans((folder / "log").read_text("utf-8", "replace"))
    if code or not runs:
        return PeersRecompute(contestant.name, number, events, problem=f"exit code {code}; its log is {folder / 'log'}")
    warm = runs[1:] or runs
    return PeersRecompute(
        contestant.name,
        number,
        events,
        start_s=runs[0][0] - began,
        first_s=runs[0][1] - runs[0][0],
        seconds=median(end - start for start, end in warm),
        cpu_s=(own.cpu_at(warm[-1][1]) - own.cpu_at(warm[0][0])) / len(warm),
        peak_bytes=own.peak_bytes,
        rows=len(truth),
        differ=differing(truth, contestant.answer(job)),
    )


def spans(log: str) -> list[tuple[float, float]]:
    """Start and end of each repetition, from the lines `RUN START END` of a log."""
    lines = (line.split() for line in log.splitlines() if line.startswith("RUN "))
    return [(float(start), float(end)) for _, start, end in lines]
