"""`tandem resume`: let recomputes publish again after a rollback."""

from tandem.cli.command.actor import who
from tandem.cli.command.call import Call, Output
from tandem.cli.release.promote import Why
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import promotion
from tandem.ledger.publish.standing import StandingReleases


def run(call: Call, *, why: Why = "") -> Output:
    """Let recomputes publish again, starting from the publication that the rollback made live."""
    live = promotion.resume(StandingReleases(Tables.of(call.settings())), by=who(call, "resume"), at=clock.now(), why=why)
    text = f"publication {live.number}: recomputes continue from release {live.release}"
    return Output({"publication": live.number, "release": live.release, "kind": live.kind}, text)
