"""`tandem retire`: retire a release that is not live."""

from typing import Annotated

import typer

from tandem.cli.command.actor import who
from tandem.cli.command.call import Call, Output
from tandem.cli.release.promote import Why
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import promotion
from tandem.ledger.publish.standing import StandingReleases


def run(
    call: Call, release: Annotated[int, typer.Argument(metavar="RELEASE", help="The release's number.")], *, why: Why = ""
) -> Output:
    """Retire a release: the speed layer and recomputes stop updating it, and `tandem maintain` deletes the files that only it
    uses.
    """
    gone = promotion.retire(
        StandingReleases(Tables.of(call.settings())),
        release,
        by=who(call, "retire"),
        at=clock.now(),
        why=why,
    )
    return Output({"release": gone.state.release, "stage": gone.stage}, f"release {release} is retired")
