"""`tandem promote`: make a ready release live."""

from typing import Annotated, Any, Final

import typer

from tandem.batch.release import gates
from tandem.batch.release.gates import PromotionGate
from tandem.cli.command.actor import who
from tandem.cli.command.call import Call, Output
from tandem.cli.release.diff_figures import lines_of
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import promotion
from tandem.ledger.publish.diffs import ReleaseDiff, ReleaseDiffs
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.standing import StandingReleases

SHUT: Final = 3
"""The exit code of `--check` if the gate is closed."""

Gate = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITIONS",
        help="Promote only if these conditions hold for every changed view. Example: 'changed_keys < 1%, max_error < 5%'.",
    ),
]
MaxLag = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Number of offsets by which the release's realtime views may be behind the live ones."),
]
Why = Annotated[str, typer.Option(metavar="TEXT", help="The reason that `tandem history` shows.")]


def run(
    call: Call,
    release: Annotated[
        int | None, typer.Argument(metavar="RELEASE", help="The release. Default: the newest ready one after the live release.")
    ] = None,
    *,
    gate: Gate = None,
    max_lag: MaxLag = 1000,
    why: Why = "",
    check: Annotated[bool, typer.Option("--check", help="Only check the gate; the exit code is 3 if it is closed.")] = False,
) -> Output:
    """Make a release live that `tandem apply` has built: all of its views at once, in one publication.

    Readers switch when the release has reached the position of their answers. The release that was live stays up to date for a
    rollback until it is retired. A gate's conditions may use changed_keys, only_old, only_new, max_error and mean_error.

    Prints how many rows of each view differ, as `apply` compared them below the cut; `tandem diff` compares both layers now.
    """
    conditions = () if gate is None else gates.parse(gate)
    if check:
        return _checked(call, release, conditions)
    live = promoted(call, release, conditions, max_lag=max_lag, why=why)
    compared = ReleaseDiffs(Tables.of(call.settings())).of_release(live.release)
    document = {"publication": live.number, "release": live.release, "kind": live.kind, "views": _views(compared)}
    return Output(document, "\n".join([f"publication {live.number}: release {live.release} is live", *lines_of(compared)]))


def _checked(call: Call, release: int | None, conditions: tuple[PromotionGate, ...]) -> Output:
    """Whether a ready release passes the gate. Raises promotion.NotReady."""
    settings = call.settings()
    tables = Tables.of(settings)
    state = promotion.chosen(StandingReleases(tables), release, days=settings.keep.release_days, at=clock.now())
    compared = ReleaseDiffs(tables).of_release(state.release)
    document = {"release": state.release, "open": True, "why": None, "views": _views(compared)}
    try:
        if conditions:
            gates.refuse_shut(conditions, compared)
    except gates.Shut as shut:
        return Output({**document, "open": False, "why": str(shut)}, "\n".join([str(shut), *lines_of(compared)]), SHUT)
    return Output(document, "\n".join([f"the gate is open for release {state.release}", *lines_of(compared)]))


def _views(compared: ReleaseDiff | None) -> dict[str, Any] | None:
    """The differences of its answers that `apply` recorded; None if they were never compared."""
    return None if compared is None else {name: dict(view) for name, view in compared.views.items()}


def promoted(call: Call, release: int | None, conditions: tuple[PromotionGate, ...], *, max_lag: int, why: str) -> Publication:
    """Promote a release that passes. Raises gates.Shut, promotion.NotReady."""
    settings, at = call.settings(), clock.now()
    tables, days = Tables.of(settings), settings.keep.release_days
    standing = StandingReleases(tables)
    state = promotion.chosen(standing, release, days=days, at=at)
    if conditions:
        gates.refuse_shut(conditions, ReleaseDiffs(tables).of_release(state.release))
    return promotion.promote(standing, state.release, days=days, max_lag=max_lag, by=who(call, "promote"), at=at, why=why)
