"""A recompute from the command line: with the Spark session that `up` keeps, and with a Spark of its own, by turns.

Both recompute the same small history in full, so that what a command costs before its first job counts most.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.table import Table

from batch.runtime.session import BatchRun
from bench.commands import environ as clean
from bench.growth.measuring import Size, written
from bench.process_tree import Sampler, pss_bytes, stop
from infra.settings import Settings, Spark
from infra.spark.kept import messages
from views.errors import TandemError

_EVENTS: Final = 20_000
_IDLE_S: Final = 3600
_LIMIT_S: Final = 600
_LOOK_S: Final = 0.05


@dataclass(frozen=True)
class Run:
    """A command: its duration, the CPU of all processes, and how many events it counted."""

    seconds: float
    cpu_s: float
    events: int


@dataclass(frozen=True)
class Compared:
    """Medians of seconds and CPU seconds of one command, with a Spark of its own and in the kept session.

    The session's CPU includes what its owner does before the next command. Memory is the PSS in bytes of owner and JVM: before a
    command has asked, and after the commands. `right` is whether every command published all events.
    """

    own_s: float
    kept_s: float
    own_cpu_s: float
    kept_cpu_s: float
    away_bytes: int
    free_bytes: int
    right: bool


def measure(
    folder: Path, rounds: int, *, cores: int, memory: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> Compared:
    """Run both by turns, each once before it counts. Raises TandemError."""
    state, project = folder / "state", folder / "project"
    spark = Spark(master=f"local[{cores}]", driver_memory=memory)
    batch = BatchRun(Settings(state=str(state), spark=spark), "bench", lambda: datetime.now(UTC), lambda _: None, environ)
    written(batch, project, Size(_EVENTS, keys=1000))
    batch.session.stop()
    given = {"TANDEM_STATE": str(state), "TANDEM_SPARK_MASTER": spark.master, "TANDEM_SPARK_DRIVER_MEMORY": memory}
    own, kept = (clean({**given, "TANDEM_SESSION_IDLE_S": str(idle_s)}) for idle_s in (0, _IDLE_S))
    owner = subprocess.Popen([sys.executable, "-m", "cli.run.session", "--project", str(project)], env=kept)
    try:
        _until(owner, lambda: messages.ping(state, 1.0) is not None)
        away = pss_bytes(owner.pid)
        found = []
        for number in range(1 + rounds):
            say(f"round {number} of {rounds}")
            found.append((_recompute(project, kept, state, owner), _recompute(project, own, state)))
        return compared(found[1:], away, pss_bytes(owner.pid))
    finally:
        stop(owner)


def compared(rounds: Sequence[tuple[Run, Run]], away: int, free: int) -> Compared:
    """The medians of runs in the session, each with a run with a Spark of its own."""
    kept, own = zip(*rounds, strict=True)
    right = all(one.events == _EVENTS - _EVENTS // 100 for one in (*kept, *own))
    return Compared(
        own_s=median(one.seconds for one in own),
        kept_s=median(one.seconds for one in kept),
        own_cpu_s=median(one.cpu_s for one in own),
        kept_cpu_s=median(one.cpu_s for one in kept),
        away_bytes=away,
        free_bytes=free,
        right=right,
    )


def _recompute(project: Path, environ: Mapping[str, str], state: Path, owner: "subprocess.Popen[bytes] | None" = None) -> Run:
    """One command; with an owner, until the session is free again, whose CPU counts too."""
    words = [sys.executable, "-m", "cli", "recompute", "--mode", "full", "--json", "--project", str(project)]
    others = [] if owner is None else [owner.pid]
    start = time.monotonic()
    process = subprocess.Popen(words, env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with Sampler(lambda: [process.pid, *others], memory=False, clock=time.monotonic) as used:
        printed, _ = process.communicate(timeout=_LIMIT_S)
        seconds = time.monotonic() - start
        if owner is not None:
            _until(owner, lambda: (told := messages.ping(state, 1.0)) is not None and told.free)
    if process.returncode:
        raise TandemError(f"a recompute of the benchmark failed: {printed.decode(errors='replace').strip()}")
    events = sum(counts["events"] for counts in json.loads(printed)["counts"].values())
    return Run(seconds, used.cpu_at(time.monotonic()) - used.cpu_at(start), events)


def _until(owner: "subprocess.Popen[bytes]", true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not true():
        if owner.poll() is not None or time.monotonic() > deadline:
            raise TandemError("the owner of the benchmark's session ended, or did not become ready")
        time.sleep(_LOOK_S)


def document(found: Compared) -> dict[str, Any]:
    """All figures, and how often the session's go into the others."""
    ratios = {"seconds_ratio": round(found.kept_s / found.own_s, 3), "cpu_ratio": round(found.kept_cpu_s / found.own_cpu_s, 3)}
    return {**asdict(found), **ratios}


def table(found: Compared) -> Table:
    """A line for each way to run the command."""
    shown = Table(title=f"recompute of {_EVENTS:,} events from the command line", title_justify="left")
    for heading in ("Spark", "s", "of its own", "CPU s", "of its own", "memory between runs, MB"):
        shown.add_column(heading, justify="left" if heading == "Spark" else "right")
    shown.add_row("its own", f"{found.own_s:.2f}", "1.00", f"{found.own_cpu_s:.2f}", "1.00", "0")
    told = document(found)
    ratios = (f"{told['seconds_ratio']:.2f}", f"{found.kept_cpu_s:.2f}", f"{told['cpu_ratio']:.2f}")
    memory = f"{found.free_bytes / 1e6:,.0f}, after idle_s {found.away_bytes / 1e6:,.0f}"
    shown.add_row("kept session", f"{found.kept_s:.2f}", *ratios, memory)
    return shown
