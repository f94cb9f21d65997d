"""The processes of a project as `up` starts them and `status` shows them."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cli.call import Call
from infra import airflow, broker, broker_login, folders, kafka, processes
from infra.logs.files import bounds
from infra.processes import Process
from infra.settings import Settings

SPEED = "speed"
_ORDER: Final = (broker.NAME, SPEED, *airflow.NAMES)
"""As they are started; they are stopped the other way round, so that nobody sees what he reads vanish."""


def running(settings: Settings) -> list[Process]:
    """The parts that live, in the order in which they are started."""
    found = (processes.running(settings.folder, name) for name in in_order(settings.folder))
    return [process for process in found if process]


def in_order(state: Path) -> list[str]:
    """What has been started here, running or not, the broker first."""
    return sorted(processes.names(state), key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def start(call: Call, settings: Settings, name: str) -> Process:
    """Start `tandem NAME` in the background and wait until it says that it is ready; the caller holds `processes.starting`.

    It says so by writing `run/NAME.ready` in the state folder. Raises Crashed with the last lines of its log.
    """
    state = settings.folder
    ready = ready_file(state, name)
    ready.unlink(missing_ok=True)
    # The same interpreter and copy of the platform, whatever this process's PATH and folder are.
    environ = {**folders.child_environment(call.environ), "PYTHONUNBUFFERED": "1"}
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
    lines = [f"{part['name']:<17} process {part['pid']:<8} log {part['log']}" for part in document["processes"]]
    lines += [f"{name:<17} {address}" for name, address in document["addresses"].items()]
    return lines or ["nothing is running; start it with `tandem up`"]


def _addresses(settings: Settings) -> Iterator[tuple[str, str]]:
    with suppress(kafka.NoBroker):
        yield "kafka", broker.address(settings).bootstrap
        if not settings.kafka.bootstrap:
            yield "kafka_login", str(broker_login.java_properties(settings))
    if found := airflow.address(settings):
        yield "airflow", found
