"""Build a project's definitions as a release beside the live one, until the release is ready to go live.

1. The new release begins at the live cut. Views with the same meaning share their batch states.
2. The other views are folded from the log below the cut.
3. The speed layer follows the log from the cut under the new definitions.
4. The answers of both releases below the cut are compared, key by key.

Answers do not change meanwhile. If a run is killed at any point, the next run continues from what is recorded, or starts over.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tandem.batch.release.build_release import build_release
from tandem.batch.release.diff import diffs
from tandem.batch.release.release_plan import ReleasePlan, Status, Terms, plan_release
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.publish import adoption, promotion
from tandem.ledger.publish.diffs import ReleaseDiff, ReleaseDiffs
from tandem.ledger.publish.publications import Publication
from tandem.views.errors import TandemError
from tandem.views.project.project import Project
from tandem.views.verify.release_diff import Diff, to_json

_EVERY_S: Final = 0.2
_STILL_S: Final = 60.0
"""A speed layer that is alive commits several times a second, once it has its Spark session."""


class CannotApply(TandemError, code="apply-impossible"):
    """The definitions cannot be built beside the live ones; the error states what exists."""


@dataclass(frozen=True)
class Applied:
    """The ready release, the outcome of every view, and how its answers differ; None if there is nothing to apply.

    `written` is the number of bytes of view data that this run wrote.
    """

    live: Publication
    release: int | None = None
    status: Mapping[str, Status] = field(default_factory=dict, hash=False)
    diff: ReleaseDiff | None = None
    lags: Mapping[str, int] = field(default_factory=dict, hash=False)
    written: int = 0


def run(
    batch: BatchRun, working_tree: Callable[[], Project], terms: Terms, *, sleep: Callable[[float], None] = time.sleep
) -> Applied:
    """Build the working tree as a release and make it ready. If nothing is published yet, the working tree is published.

    Waits for another run that holds the lock, and until the release's realtime views have caught up. Raises TandemError if

    * a source could not read its published records,
    * a gap or a shorter history is not accepted,
    * the release fails.
    """
    tables = batch.tables
    wanted = working_tree()
    adoption.live(tables, lambda: wanted, by=batch.by, at=batch.now())
    batch.hold("views")
    batch.standing.claim()
    live = adoption.live(tables, lambda: wanted, by=batch.by, at=batch.now())
    plan = _stored(batch, live, wanted, terms)
    if plan is None:
        return Applied(live)
    change, number = plan.change, plan.change.after.number
    for replaced in plan.retired:
        if (state := batch.standing.state_of(replaced)) is not None:
            why = f"release {number} replaces it"
            batch.standing.record("retired", replace(state, by=batch.by, at=batch.now(), why=why))
    diff, written = ReleaseDiffs(tables).of_release(number), 0
    if not plan.ready:
        built = build_release(batch, plan)
        diff, written = _compare(batch, plan, built.state), built.written
    lags = _caught_up(batch, number, terms.max_lag, sleep)
    return Applied(live, number, change.status, diff, lags, written)


def _stored(batch: BatchRun, live: Publication, wanted: Project, terms: Terms) -> ReleasePlan | None:
    """The plan, once its release is stored."""

    def planned() -> ReleasePlan | None:
        days = batch.settings.keep.release_days
        return plan_release(batch.standing, batch.releases, live, wanted, terms, days=days, by=batch.by, at=batch.now())

    plan = planned()
    while plan is not None and not plan.ready:
        if batch.releases.add(plan.change.after):
            return plan
        plan = planned()  # another process has stored a release of this number
    return plan


def _compare(batch: BatchRun, plan: ReleasePlan, state: Publication) -> ReleaseDiff:
    """Compare the answers of both releases below the cut, and record the differences."""
    change, changed = plan.change, plan.compared
    found = diffs(batch, (change.before, change.live), (change.after, state), changed) if changed else {}
    views = {
        name: {"status": what, **(to_json(found.get(name, Diff())) if what == "changed" else {})}
        for name, what in change.status.items()
    }
    diff = ReleaseDiff(batch.now(), change.after.number, change.before.number, views)
    ReleaseDiffs(batch.tables).record(diff)
    return diff


def _caught_up(batch: BatchRun, number: int, max_lag: int, sleep: Callable[[float], None]) -> dict[str, int]:
    """Wait until the realtime views are near the live ones. Raises CannotApply if they do not advance, or have failed."""
    tables = batch.tables
    least: dict[str, int] | None = None
    still = 0.0
    while True:
        newest, live = batch.standing.newest(number), batch.standing.publications.latest()
        if newest is not None and newest.over:
            raise CannotApply(f"release {number} is {newest.stage}: {newest.state.why or 'by another command'}")
        if live is None or live.release == number:
            return {}
        state = batch.standing.state_of(number)
        lags = {} if state is None else promotion.lags(tables, state, live)
        if all(lag <= max_lag for lag in lags.values()):
            return lags
        if least is None:
            batch.say(f"release {number} is built; waiting for its realtime views to catch up ({_lags_text(lags)})")
        still = 0.0 if least is None or lags != least else still + _EVERY_S
        least = lags
        if still > _STILL_S:
            raise CannotApply(
                f"release {number} is built, but its realtime views do not advance ({_lags_text(lags)}); start the speed layer "
                "with `tandem up`, then `tandem apply` continues from here"
            )
        sleep(_EVERY_S)


def _lags_text(lags: Mapping[str, int]) -> str:
    return ", ".join(f"{source}: {lag} offsets behind" for source, lag in lags.items())
