"""The supervisor, which `up` starts and which keeps the parts running: `python -m tandem.cli.run.supervisor --project DIR`.

It runs until no part is wanted any more, or until a signal ends it. All parts end with it, whatever ends it. It ignores SIGHUP.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from tandem.cli.command import signals
from tandem.cli.command.call import Call
from tandem.cli.command.command_log import part_log
from tandem.cli.run.supervised_parts import supervised
from tandem.infra import clock
from tandem.infra.supervision import record, restarts
from tandem.infra.supervision.supervisor import Supervisor


def run(call: Call) -> None:
    """Keep the parts running that `run/supervisor.wanted` of the state folder names."""
    settings = call.settings()
    # A function instead of SIG_IGN, because the parts would inherit SIG_IGN.
    signal.signal(signal.SIGHUP, lambda *_: None)
    with part_log(call, settings, record.NAME) as log, signals.stopping() as stop:
        Supervisor(
            settings.folder,
            supervised(call, settings),
            restarts.terms(settings.supervisor),
            now=clock.now,
            say=log.info,
            warn=log.warning,
        ).keep(stop)


def _call(arguments: list[str]) -> Call:
    parser = argparse.ArgumentParser(prog="tandem.cli.run.supervisor")
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--debug", action="store_true")
    given = parser.parse_args(arguments)
    return Call(given.project, json=False, debug=given.debug, environ=dict(os.environ))


if __name__ == "__main__":
    run(_call(sys.argv[1:]))
