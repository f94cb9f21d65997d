"""The processes of a project as `up` starts them and `status` shows them."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.call import Call
from infra import broker, jars, kafka, processes
from infra.logs.files import bounds
from infra.processes import Process
from infra.settings import Settings

SPEED = "speed"


def running(settings: Settings) -> list[Process]:
    """The parts that live, the broker first."""
    found = (processes.running(settings.folder, name) for name in processes.names(settings.folder))
    return sorted((process for process in found if process), key=lambda process: process.name != broker.NAME)


def start(call: Call, settings: Settings, name: str) -> Process:
    """Start `tandem NAME` in the background and wait until it says that it is ready; the caller holds `processes.starting`.

    It says so by writing `run/NAME.ready` in the state folder. Raises Crashed with the last lines of its log.
    """
    state = settings.folder
    ready = ready_file(state, name)
    ready.unlink(missing_ok=True)
    # The same interpreter and checkout, whatever this process's PATH and folder are.
    roots = [str(jars.ROOT), *filter(None, [call.environ.get("PYTHONPATH")])]
    environ = {**call.environ, "PYTHONPATH": ":".join(roots), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "cli", name, "--project", str(call.project), *(["--debug"] if call.debug else [])]
    child = processes.spawn(state, name, command, environ=environ, folder=call.project, bounds=bounds(settings.logs))
    try:
        processes.wait(child, lambda: ready.exists() or None, seconds=settings.speed.ready_s)
    except BaseException:
        processes.stop(state, child.process, seconds=5)
        raise
    return child.process


def ready_file(state: Path, name: str) -> Path:
    """What a part writes once it is ready, in one step."""
    return state / "run" / f"{name}.ready"


def announce(state: Path, name: str, facts: dict[str, Any]) -> None:
    """Say that this process, a part of the project, is ready; for whoever waits in `start`."""
    path = ready_file(state, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".ready.new")
    new.write_text(json.dumps(facts), "utf-8")
    new.replace(path)


def document(settings: Settings) -> dict[str, Any]:
    """What `up` prints: every part that runs, and where it is reached."""
    parts = [{"name": part.name, "pid": part.pid, "log": part.log} for part in running(settings)]
    return {"processes": parts, "addresses": dict(_addresses(settings))}


def sentences(document: dict[str, Any]) -> list[str]:
    """The same for a person, a line each."""
    lines = [f"{part['name']:<8} process {part['pid']:<8} log {part['log']}" for part in document["processes"]]
    lines += [f"{name:<8} {address}" for name, address in document["addresses"].items()]
    return lines or ["nothing is running; start it with `tandem up`"]


def _addresses(settings: Settings) -> Iterator[tuple[str, str]]:
    try:
        yield "kafka", broker.address(settings).bootstrap
    except kafka.NoBroker:
        return
