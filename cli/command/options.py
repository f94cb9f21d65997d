"""Options that allow views to be built from an incomplete log."""

from typing import Annotated

import typer

AcceptGap = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Accept this named gap and count without its offsets; may be repeated.")
]
AcceptShorterHistory = Annotated[
    bool,
    typer.Option(
        "--accept-shorter-history", help="Build even if the archive has fewer records than the live views have counted."
    ),
]
