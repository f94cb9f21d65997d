"""The same application on plain uvicorn, without what bounds connections: FOLDER of a project; prints a line when it answers.

`tandem.bench.serving.limits` compares `tandem serve` with it; it is nothing to run otherwise.
"""

import os
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tandem.bench.serving.announced import Announced
from tandem.infra.logs import telling
from tandem.infra.settings import load
from tandem.serving.http import listener
from tandem.serving.http.app import application
from tandem.serving.http.composition import of_project
from tandem.serving.http.connections.at_once import Prompt
from tandem.serving.http.operations.command import Tandem


def main(folder: Path) -> None:
    """Serve until it is ended."""
    settings = load(folder, os.environ)
    tandem = Tandem([sys.executable, "-m", "tandem.cli"], folder, os.environ)

    def now() -> datetime:
        return datetime.now(UTC)

    log = telling.filed(settings, "log", now=now)
    with telling.recorded(settings, "access", now=now) as access, telling.recorded(settings, "audit", now=now) as audit:
        made = of_project(settings, tandem=tandem, log=log, access=access, audit=audit, now=now, clock=time.monotonic)
        bound = listener.listening("127.0.0.1", 0, tls=None)
        app = application(made)
        prompt: Any = partial(Prompt, at_once=app.state.direct.at_once)
        Announced(listener.configured(app, http=prompt)).run(sockets=[bound])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
