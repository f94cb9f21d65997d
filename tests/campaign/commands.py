"""Tandem's commands for the campaign: run as processes, with their output in the evidence."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tests.campaign.messages import Ended, misleading
from tests.campaign.tally import Tally

LONGEST_S: Final = 1200
"""A command that takes longer hangs: it may wait for the lock of another one, and both for Spark on a busy machine."""
_SHOWN: Final = 1500


@dataclass
class Running:
    """A command that was started, in a session of its own."""

    words: tuple[str, ...]
    popen: "subprocess.Popen[bytes]"
    output: Path
    began: float
    killed: bool = False

    def family(self) -> list[psutil.Process]:
        """Its processes, the command itself first."""
        with suppress(psutil.NoSuchProcess):
            itself = psutil.Process(self.popen.pid)
            return [itself, *itself.children(recursive=True)]
        return []

    def wait_or_end(self, seconds: float) -> bool:
        """Wait; whether it has ended by itself meanwhile."""
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(seconds)
        return self.popen.returncode is not None

    def kill(self) -> None:
        """Kill all of its processes."""
        self.killed = True
        for process in self.family()[::-1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()


@dataclass
class Tandem:
    """The commands of one project."""

    project: Path
    root: Path
    environ: Mapping[str, str]
    tally: Tally
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each command took the last time that it was not disturbed."""

    def start(self, *words: str, given: bytes | None = None) -> Running:
        """Start a command with `--json`; `given` is its standard input."""
        command = [sys.executable, "-m", "tandem.cli", *words, "--project", str(self.project), "--json"]
        files = self.tally.evidence.parent / "output"
        files.mkdir(exist_ok=True)
        # Files and no pipes: what a killed command started may live on with its pipes for a moment.
        name = files / f"{time.monotonic_ns()}-{words[0]}"
        with (
            tempfile.TemporaryFile() as stdin,
            name.with_suffix(".out").open("wb") as out,
            name.with_suffix(".err").open("wb") as err,
        ):
            stdin.write(given or b"")
            stdin.seek(0)
            popen = subprocess.Popen(
                command, cwd=self.root, env=dict(self.environ), stdin=stdin, stdout=out, stderr=err, start_new_session=True
            )
        return Running(words, popen, name, time.monotonic())

    def end(self, running: Running, *, seconds: float = LONGEST_S) -> Ended:
        """Wait for a command, and count what misleads in how it ended."""
        try:
            code = running.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.tally.found("manual interventions", why=f"a command hangs for {seconds:.0f} s", words=running.words)
            running.kill()
            code = running.popen.wait(60)
        out, err = (running.output.with_suffix(suffix) for suffix in (".out", ".err"))
        ended = Ended(running.words, code, out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace"), running.killed)
        for file in (out, err):
            file.unlink()
        took = time.monotonic() - running.began
        if not ended.killed and code == 0:
            self.seconds[running.words[0]] = took
        facts: dict[str, Any] = {"words": running.words, "code": code, "took": round(took, 1), "killed": running.killed}
        self.tally.note("command", **facts, err=ended.err[-_SHOWN:], error=ended.document.get("error"))
        self.tally.count("commands")
        for reason in misleading(ended):
            self.tally.found("misleading messages", why=reason, **facts, out=ended.out[-_SHOWN:], err=ended.err[-_SHOWN:])
        return ended

    def run(self, *words: str, given: bytes | None = None) -> Ended:
        """Run a command to its end."""
        return self.end(self.start(*words, given=given))


def wait_until(condition: Callable[[], bool], *, seconds: float, every: float = 0.25) -> bool:
    """Wait until the condition holds; whether it did in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def signalled(processes: list[psutil.Process], number: signal.Signals) -> None:
    """Send all a signal; those that have ended by now are left out."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
