"""The owner of the project's kept Spark session, a part that `up` starts: `python -m cli.run.session --project DIR`.

A process owns one JVM at most. When that JVM ends, the process runs itself again, with the same id, so that it holds no memory of
PySpark until a command asks for the session.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Final

from cli.command import signals
from cli.command.call import Call, Told
from cli.command.command_log import part_log
from cli.run import part_processes
from infra.settings import Settings
from infra.spark.kept.owner import SessionOwner
from views.errors import TandemError

_IMPORTS: Final = ("batch.archive.copy_task", "batch.fold.duplicates", "batch.fold.fold", "batch.rebuild.rebuild")
"""What the workers of the next command import before it asks."""


def run(call: Call) -> bool:
    """Own the session until a signal ends it, or until its JVM has ended; returns whether to start over."""
    settings = call.settings()
    with part_log(call, settings, part_processes.SESSION) as log, signals.stopping() as stop:

        def start(chosen: Settings) -> Any:
            from infra.spark.kept import jvm  # noqa: PLC0415 - PySpark takes memory, which a session that nobody uses saves

            return jvm.start(chosen, call.environ, _IMPORTS)

        SessionOwner(call.settings, call.environ, start, log.info, log.warning).serve(stop)
        return not stop.is_set()


def _call(arguments: list[str]) -> Call:
    parser = argparse.ArgumentParser(prog="cli.run.session")
    parser.add_argument("--project", type=Path, required=True)
    given = parser.parse_args(arguments)
    return Call(given.project, json=False, debug=False, environ=dict(os.environ))


def main(own: Call) -> None:
    """Own the session, again and again under one process id, until a signal ends it."""
    try:
        again = run(own)
    except Told:
        sys.exit(1)
    except TandemError as error:
        sys.exit(f"tandem: {error}")
    if again:
        # The environment of the start: Spark has added variables.
        os.execve(sys.executable, [sys.executable, "-m", "cli.run.session", *sys.argv[1:]], dict(own.environ))  # noqa: S606 - our own command


if __name__ == "__main__":
    main(_call(sys.argv[1:]))
