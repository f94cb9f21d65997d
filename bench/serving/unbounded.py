"""The same application on plain uvicorn, without what bounds connections: FOLDER of a project; prints a line when it answers.

`bench.serving.limits` compares `tandem serve` with it; it is nothing to run otherwise.
"""

import json
import os
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import uvicorn

from infra.logs import telling
from infra.settings import load
from serving.http import listener
from serving.http.app import application
from serving.http.composition import of_project
from serving.http.operations.command import Tandem


class _Server(uvicorn.Server):
    """Says where it is once it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets
        print(json.dumps({"address": listener.address_of(sockets[0], tls=None), "pid": os.getpid()}), flush=True)


def main(folder: Path) -> None:
    """Serve until it is ended."""
    settings = load(folder, os.environ)
    tandem = Tandem([sys.executable, "-m", "cli"], folder, os.environ)

    def now() -> datetime:
        return datetime.now(UTC)

    log = telling.filed(settings, "log", now=now)
    with telling.recorded(settings, "access", now=now) as access, telling.recorded(settings, "audit", now=now) as audit:
        made = of_project(settings, tandem=tandem, log=log, access=access, audit=audit, now=now, clock=time.monotonic)
        bound = listener.listening("127.0.0.1", 0, tls=None)
        config = uvicorn.Config(application(made), loop="uvloop", http="httptools", ws="none", log_config=None, access_log=False)
        _Server(config).run(sockets=[bound])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
