"""The option `--from` of `plan` and `apply`: from when on changed definitions count."""

from typing import Annotated

import typer

from tandem.batch.release.starting_time import NOW, Start
from tandem.serving.read.selection import parse_time

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Windows that begin before this time keep the live definition, also for late events (ISO 8601, UTC). now: the log's "
        "own time, its watermark.",
    ),
]


def start_of(text: str | None) -> Start:
    """The value of the option. Raises BadSelection for a text that is not a time."""
    return None if text is None else NOW if text == NOW else parse_time(text)
