"""The processes of a project that `up` starts and `status` shows."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tandem.infra import kafka
from tandem.infra.airflow import local_airflow
from tandem.infra.files import atomic_files
from tandem.infra.kafka import broker, broker_login
from tandem.infra.process import background
from tandem.infra.process.background import Process
from tandem.infra.settings import Settings
from tandem.infra.supervision import record

SPEED: Final = "speed"
SERVER: Final = "serve"
SINK: Final = "sink"
"""The process of all sinks and alerts."""
_ORDER: Final = (broker.NAME, SPEED, SERVER, SINK, *local_airflow.NAMES, record.NAME)
"""The order of starting parts; they stop in reverse order, so that no part loses another part that it reads from."""


def running(settings: Settings) -> list[Process]:
    """The running parts, in the order in which they are started."""
    found = (background.running(settings.folder, name) for name in in_order(settings.folder))
    return [process for process in found if process]


def in_order(state: Path) -> list[str]:
    """All parts that were started here, running or not, the broker first."""
    return sorted(background.names(state), key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def ready_file(state: Path, name: str) -> Path:
    """The file that a part writes once it is ready, atomically."""
    return state / "run" / f"{name}.ready"


def announce(state: Path, name: str, **facts: str) -> None:
    """Announce to the supervisor that this process, a part of the project, is ready, and its address."""
    path = ready_file(state, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.replace(path, json.dumps({**facts, "pid": os.getpid()}).encode("utf-8"))


def announced(state: Path, name: str, process: Process) -> dict[str, Any] | None:
    """The announcement of this process of a part; None if it has not announced itself, or has withdrawn it."""
    try:
        facts: dict[str, Any] = json.loads(ready_file(state, name).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return facts if facts.get("pid") == process.pid else None


def withdraw(state: Path, name: str) -> None:
    """Withdraw the announcement of this process."""
    if announced(state, name, Process(name, os.getpid(), "", "")) is not None:
        ready_file(state, name).unlink(missing_ok=True)


def server_address(state: Path) -> str | None:
    """The address of the project's server; None if none runs, or it is not ready."""
    server = background.running(state, SERVER)
    facts = None if server is None else announced(state, SERVER, server)
    return None if facts is None else str(facts["address"])


def document(settings: Settings) -> dict[str, Any]:
    """The document of `up`: every running part, and its address."""
    parts = [{"name": part.name, "pid": part.pid, "log": part.log} for part in running(settings)]
    return {"processes": parts, "addresses": dict(_addresses(settings))}


def sentences(document: dict[str, Any]) -> list[str]:
    """The same for a person, one line for each part."""
    lines = [f"{part['name']:<17} process {part['pid']:<8} log {part['log']}" for part in document["processes"]]
    lines += [f"{name:<17} {address}" for name, address in document["addresses"].items()]
    return lines or ["nothing is running; start it with `tandem up`"]


def _addresses(settings: Settings) -> Iterator[tuple[str, str]]:
    with suppress(kafka.NoBroker):
        yield "kafka", broker.address(settings).bootstrap
        if not settings.kafka.bootstrap:
            yield "kafka_login", str(broker_login.java_properties(settings))
    if server := server_address(settings.folder):
        yield "serve", server
    if found := local_airflow.address(settings):
        yield "airflow", found
