"""How fast the same views are computed again from the whole log: by stock Spark, by Spark tuned, and by Tandem."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from deltalake import DeltaTable

from bench.commands import environ
from bench.stock.answers import Answers, differing
from bench.stock.jobs.spark_views import SIX
from bench.stock.shown import Asked, MergedTables
from bench.stock.systems import SOURCE, Place, project, tandem_environ
from infra.java import jars
from infra.settings import Settings
from ledger.delta.addresses import Tables
from views.fingerprint.fingerprint import decoder_fingerprint
from views.project.project import load

RECOMPUTERS = ("tandem", "stock", "tuned")


@dataclass(frozen=True)
class Recompute:
    """One system's events per second in one round; the first repetition of a process warms it up and does not count."""

    system: str
    round: int
    raw_per_s: float | None
    events_per_s: float | None
    rows: int = 0
    differ: int = 0
    problem: str = ""


class Failed(Exception):
    """A command of the benchmark failed."""


def prepare(place: Place, limit_s: float) -> int:
    """Archive the topic as it is with Tandem's own command, for all to read; gives the number of events."""
    folder = project(place.state / "project", len(SIX))
    _run([sys.executable, "-m", "cli", "archive", "--project", str(folder), "--json"], place, limit_s)
    return sum(int(rows) for rows in DeltaTable(_events(place)).get_add_actions(flatten=True).column("num_records").to_pylist())


def rounds(place: Place, events: int, truth: Answers, *, number: int, repeat: int, limit_s: float) -> Iterator[Recompute]:
    """One round: each system once, each in a process of its own."""
    for offset in range(len(RECOMPUTERS)):
        system = RECOMPUTERS[(offset + number) % len(RECOMPUTERS)]
        try:
            output = _run(_command(system, place, repeat), place, limit_s)
        except Failed as failed:
            yield Recompute(system, number, None, None, problem=str(failed))
            continue
        seconds = {name: median(times[1:] or times) for name, times in json.loads(output.splitlines()[-1]).items()}
        found = _answers(system, place)
        yield Recompute(
            system,
            number,
            events / seconds["raw"],
            events / seconds["events"],
            rows=sum(map(len, truth.values())),
            differ=differing(truth, found),
        )


def _command(system: str, place: Place, repeat: int) -> list[str]:
    if system == "tandem":
        folder = place.state / "project"
        return [sys.executable, "-m", "bench.stock.jobs.recompute_tandem", f"--project={folder}", f"--repeat={repeat}"]
    options = {
        "archive": _tables(place).archive(SOURCE),
        "events": _events(place),
        "jars": ",".join(map(str, jars.paths("spark", environ=os.environ))),
        "state": str(place.state / system),
        "memory": place.memory,
        "views": str(len(place.views)),
        "cores": str(place.cores),
        "repeat": str(repeat),
    }
    tuned = ["--tuned"] if system == "tuned" else []
    return [
        sys.executable,
        "-m",
        "bench.stock.jobs.recompute_stock",
        *(f"--{name}={value}" for name, value in options.items()),
        *tuned,
    ]


def _answers(system: str, place: Place) -> Answers:
    if system == "tandem":
        return Asked(tandem_environ(place)["TANDEM_STATE"], SOURCE, place.views).answers()
    return MergedTables(place.state / system / "tables", place.views).answers()


def _tables(place: Place) -> Tables:
    return Tables.of(Settings(state=tandem_environ(place)["TANDEM_STATE"]))


def _events(place: Place) -> str:
    source = load(place.state / "project").sources[SOURCE]
    return _tables(place).events(SOURCE, decoder_fingerprint(source))


def _run(command: list[str], place: Place, limit_s: float) -> str:
    log = place.state / "log"
    try:
        with log.open("ab") as sink:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=sink,
                env=environ(tandem_environ(place)),
                cwd=place.state,
                timeout=limit_s,
                check=False,
                text=True,
            )
    except subprocess.TimeoutExpired:
        raise Failed(f"not within {limit_s:.0f} s") from None
    if done.returncode:
        raise Failed(f"exit code {done.returncode}; see {log}")
    return done.stdout
