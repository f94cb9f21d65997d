"""`tandem logs`: the log lines of a project's processes, merged by time."""

import json
import re
import sys
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Event
from typing import Annotated, Any, Final

import typer

from tandem.cli.command import signals
from tandem.cli.command.call import Call, Output
from tandem.infra import clock
from tandem.infra.logs.lines import LEVELS, Level, Line, shown
from tandem.infra.logs.reading import Following, merged, parts
from tandem.infra.logs.telling import without
from tandem.infra.settings import secrets
from tandem.serving.read.selection import parse_time
from tandem.views.errors import TandemError, listed

_LOOK_S: Final = 0.2
_AGO: Final = re.compile(r"(\d+)\s*([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class NoSuchPart(TandemError, code="part-unknown"):
    """The part has no log in this state folder."""


def run(
    call: Call,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="PART", help="Only these parts: broker, speed, spark-speed, recompute, ...")
    ] = None,
    *,
    level: Annotated[Level, typer.Option(help="Show lines of this level and above.")] = "info",
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only lines since then: 30s, 10m, 2h, 3d, or a time (ISO 8601, UTC).")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Number of newest lines to show; 0 shows all.")] = 200,
    follow: Annotated[bool, typer.Option("--follow", help="Print new lines as they arrive, until Ctrl-C.")] = False,
) -> Output | None:
    """Show the log lines of the project's processes, merged by time: broker, speed layer, its Spark, and batch runs.

    Each part writes a file of JSON lines in `logs` of the state folder and keeps `logs.kept_files` earlier files. With
    `--json` one document has all lines; with `--json --follow` each line is a document.
    """
    settings = call.settings()
    state, hidden, chosen = settings.folder, secrets(settings), frozenset(names or ())
    if not follow and (unknown := sorted(chosen - set(parts(state)))):
        raise NoSuchPart(
            f"no log of part {unknown[0]!r} in {state / 'logs'}; parts: {listed(unknown[0], parts(state)) or 'none'}"
        )
    start = None if since is None else _start(since, now=clock.now())

    def wanted(line: Line) -> bool:
        return LEVELS.index(line.level) >= LEVELS.index(level) and (start is None or line.time >= start)

    def only(part: str) -> bool:
        return not chosen or part in chosen

    # Begin before the existing lines are read: a line that is written meanwhile may be read twice, but must not be missed.
    following = Following(state, only) if follow else None
    found = deque((line for line in merged(state, only) if wanted(line)), maxlen=limit or None)
    if following is None:
        documents = [_document(line, hidden) for line in found]
        return Output({"lines": documents}, "\n".join(str(without(shown(line), hidden)) for line in found) or "no log lines")
    with signals.stopping() as stop:
        _follow(list(found), following, wanted, stop, lambda line: without(_json(line) if call.json else shown(line), hidden))
    return None


def _follow(
    found: list[Line],
    following: Following,
    wanted: Callable[[Line], bool],
    stop: Event,
    worded: Callable[[Line], Any],
) -> None:
    """Print the found lines, and new ones until `stop` is set."""
    told = set(found)
    while True:
        for line in found:
            sys.stdout.write(f"{worded(line)}\n")
        sys.stdout.flush()
        if stop.wait(_LOOK_S):
            return
        found = [line for line in following.new() if wanted(line) and line not in told]
        # Only lines that were written between the two reads can be in both.
        told = set()


def _json(line: Line) -> str:
    return json.dumps(line.document(), ensure_ascii=False, default=str)


def _document(line: Line, hidden: frozenset[str]) -> Any:
    return without(line.document(), hidden)


def _start(since: str, *, now: datetime) -> datetime:
    if ago := _AGO.fullmatch(since.strip()):
        return now - timedelta(**{_UNITS[ago.group(2)]: int(ago.group(1))})
    return parse_time(since)
