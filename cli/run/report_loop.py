"""A report again and again: `tandem status --watch`."""

import json
import sys
from collections.abc import Callable
from typing import Final

from tandem.cli.command import signals
from tandem.cli.command.call import Call, Output
from tandem.infra import clock
from tandem.views.errors import TandemError

Report = Callable[[Callable[[str], object]], Output]
"""Computes a report; it passes lines for a person to the function that it is given."""

_EVERY_S: Final = 2.0
_CLEAR: Final = "\x1b[H\x1b[2J"
"""Moves a terminal's cursor to its first place, and clears the screen."""


def repeat_report(call: Call, report: Report) -> Output:
    """The last report, after a screen or a line of JSON for each report until a signal. Raises TandemError without a terminal."""
    if not call.json and not sys.stdout.isatty():
        raise TandemError("`--watch` needs a terminal, or --json", code="usage-invalid")
    with signals.stopping() as stop:
        while True:
            notes: list[str] = []
            newest = report(notes.append)
            if stop.is_set():
                return newest
            lines = [f"{clock.now():%H:%M:%S} UTC; Ctrl-C ends", "", *notes, str(newest.shown)]
            screen = _CLEAR + "\n".join(lines)
            sys.stdout.write((json.dumps(newest.document, ensure_ascii=False) if call.json else screen) + "\n")
            sys.stdout.flush()
            stop.wait(_EVERY_S)
