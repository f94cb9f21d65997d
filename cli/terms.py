"""Options on what terms views may be built from a log that is not complete."""

from typing import Annotated

import typer

AcceptGap = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Count without the offsets of this gap; may be repeated.")
]
AcceptShorterHistory = Annotated[
    bool, typer.Option("--accept-shorter-history", help="Build also where the archive has less than the live views counted.")
]
