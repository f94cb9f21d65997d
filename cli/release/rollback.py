"""`tandem rollback`: make an earlier publication live again."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from tandem.cli.command.actor import who
from tandem.cli.command.call import Call, Output
from tandem.cli.release.promote import Why
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import promotion
from tandem.ledger.publish.standing import StandingReleases


def run(
    call: Call,
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", help="The publication. Default: the one before the live one.")
    ] = None,
    *,
    why: Why = "",
) -> Output:
    """Make an earlier publication live again at once. Recomputes publish nothing until `tandem resume`.

    A publication of the live release answers with its batch views plus all events that the speed layer has counted since. A
    publication of another release answers from that release, which is kept up to date with the log; it is deleted after
    `keep.release_days`, or when it is retired.
    """
    settings, at = call.settings(), datetime.now(UTC)
    keep = settings.keep
    live = promotion.rollback(
        StandingReleases(Tables.of(settings)),
        number,
        days=keep.release_days,
        keep=keep.publications,
        since=at - timedelta(days=keep.days),
        by=who(call, "rollback"),
        at=at,
        why=why,
    )
    text = f"publication {live.number}: release {live.release} is live again; recomputes publish nothing until `tandem resume`"
    return Output({"publication": live.number, "release": live.release, "kind": live.kind}, text)
