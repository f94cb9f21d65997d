"""Asking a release before it is live: the option of `query`, `sql` and `watch`."""

from typing import Annotated

import typer

from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.if_promoted import IfPromoted

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
