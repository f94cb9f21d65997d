"""The port of the server that `up --serve` starts: chosen before anything starts, and the same after each restart."""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tandem.cli.run import part_processes
from tandem.infra.files import atomic_files
from tandem.infra.process import background
from tandem.infra.process.ports import HOST, free, unused
from tandem.infra.settings import Settings
from tandem.infra.settings.toml_tables.serving import ServingSettings
from tandem.views.errors import TandemError

_DEFAULT: Final = ServingSettings().port


class ServingPortTaken(TandemError, code="serving-port-taken"):
    """Another program listens on the server's port."""


def choose(settings: Settings, named: int | None, say: Callable[[str], None]) -> None:
    """Choose the port of a server that does not run yet, and store it for the supervisor.

    In place of the default port, a free one is chosen and reported if another program uses it. Raises ServingPortTaken for a port
    that was named, and for another than that of a running server.
    """
    if background.running(settings.folder, part_processes.SERVER) is not None:
        at = part_processes.server_address(settings.folder)
        if named is not None and at is not None and urlsplit(at).port != named:
            raise ServingPortTaken(f"--port {named}: the server runs at {at}; `tandem down` stops it")
        return
    port = settings.serving.port if named is None else named
    if port and not free(port):
        if named is not None or port != _DEFAULT:
            where = "serving.port" if named is None else "--port"
            raise ServingPortTaken(f"another program uses port {port} on {HOST} ({where}); stop it, or name another port")
        before = last_port(settings)
        port = before if before and free(before) else unused()
        say(f"another program uses port {_DEFAULT}; the server takes port {port} (`tandem up --serve --port N` names one)")
    path = _file(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.replace(path, f"{port}\n".encode())


def last_port(settings: Settings) -> int | None:
    """The port that `up` chose last; None if it has chosen none."""
    try:
        return int(_file(settings).read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _file(settings: Settings) -> Path:
    return settings.folder / "run" / "serve.port"
