"""`tandem doctor`: what this machine and this project run on, each thing looked at, and what is missing."""

import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from cli.call import Call, Output
from infra import broker, jars, java, kafka
from infra.settings import FILE, Settings, keys
from views.errors import TandemError

_FREE_GB = 2


@dataclass(frozen=True)
class Finding:
    """One thing looked at: whether it is as it must be, and what was found, or what would put it right."""

    name: str
    ok: bool
    found: str


def run(call: Call) -> Output:
    """Say which Python, Java, jars and broker are used and whether all of it can work; fails if something cannot."""
    findings = [_look(name, check) for name, check in _checks(call)]
    table = Table(show_header=False, box=None)
    for finding in findings:
        table.add_row("ok" if finding.ok else "NOT OK", finding.name, finding.found)
    healthy = all(finding.ok for finding in findings)
    return Output({"ok": healthy, "checks": [asdict(finding) for finding in findings]}, table, 0 if healthy else 1)


def _checks(call: Call) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "python", _python
    yield "java", lambda: _java(call)
    yield "jars", _jars
    yield "loopback", _loopback
    yield "settings", lambda: _settings(call)
    yield "definitions", lambda: _definitions(call)
    yield "state", lambda: _state(call.settings())
    yield "broker", lambda: _broker(call.settings())


def _look(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, check())
    except (TandemError, OSError) as error:
        return Finding(name, False, str(error))


def _python() -> str:
    if sys.version_info[:2] != (3, 11):
        raise TandemError(f"Python {platform.python_version()} runs this; the locked packages are for 3.11")
    return f"{platform.python_version()} at {sys.executable}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def _java(call: Call) -> str:
    found = java.find(call.environ)
    origin = "packaged with Tandem" if found.home == java.packaged_home() else f"found by {found.origin}"
    return f"{found.version} at {found.home}, {origin}"


def _jars() -> str:
    if wrong := jars.differing():
        stamp = Path(sys.prefix) / "ready"
        raise TandemError(f"{wrong[0]} and {len(wrong) - 1} more differ from infra/jars.lock; remove {stamp} and run ./tandem")
    return f"{len(jars.pinned())} as pinned in infra/jars.lock, in {jars.FOLDER}"


def _loopback() -> str:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
    return "ports can be had on 127.0.0.1"


def _settings(call: Call) -> str:
    call.settings()
    overridden = [key.variable for key in keys() if key.variable in call.environ]
    return f"{call.project / FILE}{', ' + ', '.join(overridden) if overridden else ''}"


def _definitions(call: Call) -> str:
    project = call.definitions()
    return f"{len(project.sources)} sources, {len(project.views)} views"


def _state(settings: Settings) -> str:
    folder = settings.folder
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        raise TandemError(f"{folder} cannot be written: {existing} is not writable")
    free = shutil.disk_usage(existing).free / 1e9
    if free < _FREE_GB:
        raise TandemError(f"{free:.1f} GB are free for {folder}; {_FREE_GB} are the least to work with")
    return f"{folder}, {free:.0f} GB free"


def _broker(settings: Settings) -> str:
    if not settings.kafka.bootstrap:
        try:
            address = broker.address(settings)
        except kafka.NoBroker:
            return "embedded, not running"
    else:
        address = broker.address(settings)
    kafka.describe(kafka.connect(address), ["tandem-is-it-there"])
    return f"{'outside' if settings.kafka.bootstrap else 'embedded'}, answers at {address.bootstrap}"
