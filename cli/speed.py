"""`tandem speed`: the speed layer in the foreground."""

import os
import signal
from datetime import UTC, datetime
from threading import Event

from cli import parts
from cli.call import Call
from speed import layer


def run(call: Call) -> None:
    """Fold the log's tail into real-time views until stopped (by Ctrl-C, or by `tandem down` if `up` has started it).

    Runs the published definitions; if nothing is published yet, the project's become publication 1.
    """
    settings = call.settings()
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        layer.run(
            settings,
            call.definitions,
            stop=stop,
            now=lambda: datetime.now(UTC),
            say=call.say,
            ready=lambda: parts.announce(settings.folder, parts.SPEED, {"pid": os.getpid()}),
            environ=call.environ,
            debug=call.debug,
        )
    finally:
        parts.ready_file(settings.folder, parts.SPEED).unlink(missing_ok=True)
