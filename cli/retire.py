"""`tandem retire`: let a release go that is not live."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.call import Call, Output
from cli.promote import Why
from cli.who import who
from ledger import promotion
from ledger.tables import Tables


def run(call: Call, release: Annotated[int, typer.Argument(metavar="RELEASE", help="Its number.")], *, why: Why = "") -> Output:
    """Let a release go: the speed layer and recomputes keep it up no longer, and `tandem maintain` frees what it alone needs."""
    gone = promotion.retire(Tables(call.settings().state), release, by=who(call, "retire"), at=datetime.now(UTC), why=why)
    return Output({"release": gone.state.release, "stage": gone.stage}, f"release {release} is retired")
