"""`tandem rollback`: make an earlier publication live again."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from cli.call import Call, Output
from cli.promote import Why
from cli.who import who
from ledger import promotion
from ledger.tables import Tables


def run(
    call: Call,
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", help="The publication; default the one before the live one.")
    ] = None,
    *,
    why: Why = "",
) -> Output:
    """Make an earlier publication live again, at once; recomputes then publish nothing until `tandem resume`.

    One of the live release answers as it did, with what the speed layer has counted since. One of another release answers as
    that release stands now, kept up to the end of the log; after `keep.release_days`, or once it is retired, it is gone.
    """
    settings, at = call.settings(), datetime.now(UTC)
    keep = settings.keep
    live = promotion.rollback(
        Tables(settings.state),
        number,
        days=keep.release_days,
        keep=keep.publications,
        since=at - timedelta(days=keep.days),
        by=who(call, "rollback"),
        at=at,
        why=why,
    )
    text = f"publication {live.number}: release {live.release} is live as before; recomputes wait for `tandem resume`"
    return Output({"publication": live.number, "release": live.release, "kind": live.kind}, text)
