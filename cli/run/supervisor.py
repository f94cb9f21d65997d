"""The program that `up` starts and that keeps the parts of a project running: `python -m cli.run.supervisor --project DIR`.

It runs until nothing is wanted any more, or it is asked to end; whatever ends it ends all parts. A hangup changes nothing.
"""

import argparse
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from cli.command import signals
from cli.command.call import Call
from cli.command.command_log import part_log
from cli.run.supervised_parts import supervised
from infra.supervision import record, restarts
from infra.supervision.loop import Supervisor


def run(call: Call) -> None:
    """Keep running what `run/supervisor.wanted` of the state folder names."""
    settings = call.settings()
    # A function and not SIG_IGN, which the parts would inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    with part_log(call, settings, record.NAME) as log, signals.stopping() as stop:
        Supervisor(
            settings.folder,
            supervised(call, settings),
            restarts.terms(settings.supervisor),
            now=lambda: datetime.now(UTC),
            say=log.info,
            warn=log.warning,
        ).keep(stop)


def _call(arguments: list[str]) -> Call:
    parser = argparse.ArgumentParser(prog="cli.run.supervisor")
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--debug", action="store_true")
    given = parser.parse_args(arguments)
    return Call(given.project, json=False, debug=given.debug, environ=dict(os.environ))


if __name__ == "__main__":
    run(_call(sys.argv[1:]))
