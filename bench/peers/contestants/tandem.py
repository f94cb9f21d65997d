"""Tandem's speed layer, with the settings that it has by default."""

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path

from tandem.bench.commands import reached
from tandem.bench.peers.contestant import DEDUP_MINUTES, MARKED, Contestant, ContestantCommand, Resources, Setting
from tandem.bench.peers.events import DECLARED
from tandem.bench.peers.outputs import CLAIMED, VIEW, ServedOutput, realtime_commits
from tandem.bench.peers.provided import script

_DEFINITIONS = """\
from datetime import datetime, timedelta

from tandem import Event, Source, View, count, maximum, total, tumbling


{event}

requests = Source(
    topic="{topic}",
    event=Request,
    event_time="at",
    identity=("id",),
    dedup_window=timedelta(minutes={minutes}),
)
{view} = View(
    source=requests,
    keys={{"path": "path"}},
    window=tumbling(minutes=1),
    measures={{"n": count(), "b": total("bytes"), "m": maximum("ms")}},
)
SOURCES = (requests,)
VIEWS = ({view},)
"""


def project(setting: Setting) -> Path:
    """The project of a run."""
    folder = setting.folder / "project"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tandem.toml").touch()
    text = _DEFINITIONS.format(event=DECLARED, topic=setting.topic, minutes=DEDUP_MINUTES, view=VIEW)
    (folder / "definitions.py").write_text(text, "utf-8")
    return folder


def state(setting: Setting) -> Path:
    """The state folder of a run."""
    return setting.folder / "tandem"


def environment(setting: Setting) -> Mapping[str, str]:
    """What makes a `tandem` command use the run's folder, broker, cores and memory."""
    return {
        "TANDEM_STATE": str(state(setting)),
        "TANDEM_STORAGE_ROOT": "",
        **reached(setting.connection.address),
        "TANDEM_SPARK_MASTER": f"local[{setting.cores}]",
        "TANDEM_SPARK_DRIVER_MEMORY": setting.memory,
    }


def settings(given: Resources) -> Mapping[str, str]:
    """What differs from Tandem's defaults."""
    return {"spark.master": f"local[{given.cores}]", "spark.driver_memory": given.memory}


def command(setting: Setting) -> ContestantCommand:
    """The speed layer of a project with the view."""
    return ContestantCommand(
        (sys.executable, "-m", "tandem.cli", "speed", "--project", str(project(setting))), environment(setting)
    )


def ready(setting: Setting) -> float | None:
    """The time of the writer's claim, with which it begins to read."""
    found = realtime_commits(state(setting))
    return found[CLAIMED - 1].stat().st_mtime if len(found) >= CLAIMED else None


def version() -> str:
    """The version of the installed package, or that this is a checkout."""
    try:
        return installed("tandem")
    except PackageNotFoundError:
        return "checkout"


TANDEM = Contestant(
    name="tandem",
    version=version,
    settings=settings,
    command=command,
    output=lambda setting: ServedOutput(state(setting)),
    reader=lambda setting: ContestantCommand((sys.executable, script("served_reader"), str(state(setting)), VIEW, MARKED)),
    ready=ready,
)
