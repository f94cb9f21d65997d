"""Options of several commands: those that allow views to be built from an incomplete log, a release before it is live, a time."""

from datetime import datetime
from typing import Annotated

import typer

from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.views.errors import TandemError

AcceptGap = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Accept this named gap and count without its offsets; may be repeated.")
]
AcceptShorterHistory = Annotated[
    bool,
    typer.Option(
        "--accept-shorter-history", help="Build even if the archive has fewer records than the live views have counted."
    ),
]

ReleaseOption = Annotated[
    int | None,
    typer.Option("--release", min=1, metavar="N", help="Answer as if this ready or standing release were promoted now."),
]


def release_of(settings: Settings, release: int | None) -> IfPromoted | None:
    """The release that a reader is to follow; None for the live one. Raises NotReady with the reason if it cannot be asked."""
    if release is None:
        return None
    asked = IfPromoted(Tables.of(settings), release, settings.keep.release_days)
    asked.newest()
    return asked


def time_with_zone(option: str, text: str) -> datetime:
    """The time that an option gives. Raises TandemError for a text without a zone, or of another form."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise TandemError(
            f"invalid {option} {text!r}; expected a time with a zone, such as 2026-11-01T08:00:00Z", code="usage-invalid"
        )
    return time
