"""`tandem rollback`: make an earlier publication live again."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer

from tandem.cli.command.actor import who
from tandem.cli.command.call import Call, Output
from tandem.cli.release.promote import Why
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import promotion
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.standing import StandingReleases
from tandem.views.counted import counted
from tandem.views.errors import TandemError


def run(
    call: Call,
    number: Annotated[
        int | None, typer.Argument(metavar="N", help="The publication. Default: the last one before the release changed.")
    ] = None,
    *,
    release: Annotated[
        int | None, typer.Option(metavar="RELEASE", help="Instead of a publication: the release, as it is now.")
    ] = None,
    why: Why = "",
) -> Output:
    """Make an earlier publication live again at once. Recomputes publish nothing until `tandem resume`.

    Without an argument the command undoes the newest change of the release, and the recomputes since; if no other release was
    ever live, it undoes the live publication. The output names what is undone.

    A publication of the live release answers with its batch views plus all events that the speed layer has counted since. A
    publication of another release answers from that release, which is kept up to date with the log; it is deleted after
    `keep.release_days`, or when it is retired.
    """
    settings, at = call.settings(), clock.now()
    keep = settings.keep
    if number is not None and release is not None:
        raise TandemError("name a publication or a release to roll back to, not both", code="usage-invalid")
    standing = StandingReleases(Tables.of(settings))
    live = promotion.rollback(
        standing,
        number,
        release=release,
        days=keep.release_days,
        keep=keep.publications,
        since=at - timedelta(days=keep.days),
        by=who(call, "rollback"),
        at=at,
        why=why,
    )
    since = promotion.publications_since(standing.publications.history(), live)
    document = {
        "publication": live.number,
        "release": live.release,
        "kind": live.kind,
        "undoes": [{"publication": each.number, "release": each.release, "kind": each.kind} for each in since],
    }
    text = f"publication {live.number}: release {live.release} is live again{_undoes(since)}"
    return Output(document, f"{text}; recomputes publish nothing until `tandem resume`")


def _undoes(publications: Sequence[Publication]) -> str:
    """What a rollback undid, for a person."""
    if not publications:
        return ""
    first, *later = publications
    more = f" and {counted(len(later), 'later publication')}" if later else ""
    return f", which undoes publication {first.number} ({first.kind}, release {first.release}){more}"
