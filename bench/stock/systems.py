"""The four that are compared: how each is started, and where its answers are seen."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.commands import reached
from bench.stock.jobs.spark_views import SparkView
from bench.stock.shown import Asked, MergedTables, Partials, Shown
from infra import kafka
from infra.files import private_files
from infra.java import jars

SOURCE = "requests"
TOPIC = "bench"
PROJECT = Path(__file__).parent / "project"


@dataclass(frozen=True)
class Place:
    """Where and with what a system runs: its own empty folder, and as many cores and as much memory as every other."""

    state: Path
    broker: kafka.Address
    views: Sequence[SparkView]
    cores: int
    memory: str


@dataclass(frozen=True)
class System:
    """One of the compared systems: its command, what it needs in its environment, and what it shows."""

    name: str
    command: Callable[[Place], list[str]]
    environ: Callable[[Place], dict[str, str]]
    shown: Callable[[Place], Shown]


def job(name: str, shown: Callable[[Path, Sequence[SparkView]], Shown]) -> System:
    """A Spark job of this folder."""

    def command(place: Place) -> list[str]:
        options = {
            "kafka": str(_kafka(place)),
            "topic": TOPIC,
            "jars": ",".join(map(str, jars.paths("spark", environ=os.environ))),
            "state": str(place.state),
            "views": str(len(place.views)),
            "cores": str(place.cores),
            "memory": place.memory,
        }
        return [sys.executable, "-m", f"bench.stock.jobs.{name}", *(f"--{key}={value}" for key, value in options.items())]

    return System(name, command, lambda _: {}, lambda place: shown(place.state / "tables", place.views))


def _kafka(place: Place) -> Path:
    """A file with the options of Spark's Kafka source, for it holds a login that no command line may show."""
    path = place.state / "kafka.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    private_files.write(path, json.dumps({f"kafka.{name}": value for name, value in kafka.java_options(place.broker).items()}))
    return path


def _tandem(place: Place) -> list[str]:
    return [sys.executable, "-m", "cli", "speed", "--project", str(project(place.state / "project", len(place.views)))]


def tandem_environ(place: Place) -> dict[str, str]:
    """What makes a `tandem` command use this place."""
    return {
        "TANDEM_STATE": str(place.state / "tandem"),
        "TANDEM_STORAGE_ROOT": "",
        **reached(place.broker),
        "TANDEM_SPARK_MASTER": f"local[{place.cores}]",
        "TANDEM_SPARK_DRIVER_MEMORY": place.memory,
    }


def project(folder: Path, views: int) -> Path:
    """A project with the first N of the benchmark's views."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tandem.toml", "definitions.py"):
        shutil.copy(PROJECT / name, folder)
    with (folder / "definitions.py").open("a") as file:
        file.write(f"\nVIEWS = VIEWS[:{views}]\n")
    return folder


SYSTEMS = (
    System(
        "tandem",
        _tandem,
        tandem_environ,
        lambda place: Asked(str(place.state / "tandem"), SOURCE, place.views),
    ),
    job("expert", Partials),
    job("tuned", MergedTables),
    job("textbook", MergedTables),
)
