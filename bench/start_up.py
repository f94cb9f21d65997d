"""How long commands take that do little: `tandem bench start-up`, without Kafka and Spark.

Commands over a small published view take turns with `python -c pass` and with the import of the libraries that they need. The
figures are medians, their bounds, and how many times as long as these each took.
"""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tandem.bench.commands import environ
from tandem.bench.peers.estimates import EstimateError, middle
from tandem.bench.serving import published
from tandem.views.errors import TandemError

EMPTY: Final = "python -c pass"
TABLES: Final = "import pyarrow, deltalake"
"""What reads tables."""
DEFINITIONS: Final = "import pyarrow.compute, deltalake, duckdb"
"""What reads tables and definitions, whose expressions DuckDB types."""
_NEEDED: Final = {"query": DEFINITIONS, "check": DEFINITIONS, "status": DEFINITIONS, "history": TABLES}
_SILENT: Final = (EMPTY, TABLES, DEFINITIONS)
_KEYS: Final = 10_000


def commands(project: Path) -> Mapping[str, Sequence[str]]:
    """What is measured, by the name that is printed."""
    tandem = (sys.executable, "-m", "tandem.cli")
    of_project = ("--project", str(project), "--json")
    return {
        EMPTY: (sys.executable, "-c", "pass"),
        TABLES: (sys.executable, "-c", TABLES),
        DEFINITIONS: (sys.executable, "-c", DEFINITIONS),
        "--help": (*tandem, "--help"),
        "--version": (*tandem, "--version"),
        "query": (*tandem, "query", published.VIEW, "--key", f"page={published.page(1)}", *of_project),
        "check": (*tandem, "check", *of_project),
        "status": (*tandem, "status", *of_project),
        "history": (*tandem, "history", *of_project),
    }


def measured(folder: Path, rounds: int) -> dict[str, EstimateError]:
    """Seconds of each, by turns; the first time does not count. Raises TandemError if one fails."""
    project = folder / "project"
    published.publish(project, _KEYS)
    # The first round compiles, also where the caller's environment keeps Python from writing bytecode: users have it.
    compiled = environ({"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")})
    seconds: dict[str, list[float]] = {}
    for _ in range(1 + rounds):
        for name, words in commands(project).items():
            start = time.perf_counter()
            done = subprocess.run(words, env=compiled, check=False, capture_output=True, text=True)
            seconds.setdefault(name, []).append(time.perf_counter() - start)
            # `status` also ends with 1 if it finds something wrong: here nothing runs.
            if done.returncode not in ((0, 1) if name == "status" else (0,)) or bool(done.stdout) == (name in _SILENT):
                raise TandemError(f"{name} ended with exit code {done.returncode}: {done.stderr.strip()}")
    return {name: middle(some[1:]) for name, some in seconds.items()}


def document(times: Mapping[str, EstimateError]) -> dict[str, object]:
    """Milliseconds of each, and the ratio to what it needs."""
    return {
        name: {
            "ms": round(1000 * spent.value, 1),
            "low_ms": round(1000 * (spent.low or 0), 1),
            "high_ms": round(1000 * (spent.high or 0), 1),
            **({"times_its_imports": round(spent.value / times[_NEEDED[name]].value, 2)} if name in _NEEDED else {}),
        }
        for name, spent in times.items()
    }


def lines(times: Mapping[str, EstimateError]) -> list[str]:
    """A line for each."""
    empty = times[EMPTY].value
    told = []
    for name, spent in times.items():
        line = f"{name:<41} {1000 * spent.value:6.0f} ms ({1000 * (spent.low or 0):.0f} to {1000 * (spent.high or 0):.0f})"
        line += f"   {spent.value / empty:5.1f} times {EMPTY}"
        needed = _NEEDED.get(name)
        told.append(line if needed is None else f"{line}   {spent.value / times[needed].value:5.2f} times {needed}")
    return told
