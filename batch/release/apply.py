"""Build a project's definitions as a release beside the live one, until the release is ready to go live.

1. The new release begins at the live cut. Views with the same meaning share their batch states.
2. The other views are folded from the log below the cut.
3. The speed layer follows the log from the cut under the new definitions.
4. The answers of both releases below the cut are compared, key by key.

Answers do not change meanwhile. If a run is killed at any point, the next run continues from what is recorded, or starts over.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tandem.batch.archive.decode_runs import decode_archived
from tandem.batch.recompute.build import NewVersion, build_all, candidate, commit, version_number
from tandem.batch.recompute.expectations import ExpectationUnmet, check, refuse_unmet
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.release.compare_releases import diffs
from tandem.batch.release.release_plan import ReleasePlan, Status, Terms, UnreadView, plan_release
from tandem.batch.runtime.session import BatchRun
from tandem.ledger import cut_decision
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import adoption, promotion
from tandem.ledger.publish.audits import Audit
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

    `written` is the number of bytes of view data that this run wrote, `expected` the results of the conditions that it checked.
    """

    live: Publication
    release: int | None = None
    status: Mapping[str, Status] = field(default_factory=dict, hash=False)
    diff: ReleaseDiff | None = None
    lags: Mapping[str, int] = field(default_factory=dict, hash=False)
    written: int = 0
    expected: tuple[Audit, ...] = ()


def run(
    batch: BatchRun,
    working_tree: Callable[[], Project],
    terms: Terms,
    *,
    why: str = "",
    sleep: Callable[[float], None] = time.sleep,
) -> Applied:
    """Build the working tree as a release and make it ready. If nothing is published yet, the working tree is published.

    `why` is recorded with the release, and is the reason of its promotion unless that has its own.

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
            reason = f"release {number} replaces it"
            batch.standing.record("retired", replace(state, by=batch.by, at=batch.now(), why=reason))
    diff, written, expected = ReleaseDiffs(tables).of_release(number), 0, list[Audit]()
    if not plan.ready:
        state, written, expected = _build(batch, plan, why)
        diff = _compare(batch, plan, state)
    elif why and (ready := batch.standing.state_of(number)) is not None:
        batch.standing.record("built", replace(ready, kind="apply", why=why), after=ready)
    lags = _caught_up(batch, number, terms.max_lag, sleep)
    return Applied(live, number, change.status, diff, lags, written, tuple(expected))


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


def _build(batch: BatchRun, plan: ReleasePlan, why: str) -> tuple[Publication, int, list[Audit]]:
    """Build the views that the live release does not have at its cut, and check what must hold for all views.

    Returns the release's state, the written bytes, and the results of conditions.

    If the run is killed, the next run starts over. Waits for the lock of archive runs if it decodes the archive. Raises
    TandemError if a step fails.
    """
    change, tables = plan.change, batch.tables
    for source, cut in plan.cuts.items():
        cut_decision.begin(tables, change.after.number, source, cut, by=batch.by, at=batch.now())
    # From now on the speed layer follows the release from these cuts.
    batch.standing.record("applied", replace(plan.base, why=why))
    for undecoded in plan.undecoded:
        batch.hold("archive")
        decode_archived(batch, change.after, undecoded)
    base = keep_unread(batch, plan.base, plan.unread)
    steps = [
        step if step.windows else replace(step, views={name: () for name in step.views if not base.views[name].parts})
        for step in plan.steps
    ]
    request = RecomputeRequest(keep_cut=True)
    version = NewVersion(version_number(batch.now()), base, change.after, change.new, request, plan.gaps)
    built = build_all(batch, version, steps)
    commit(tables, version, built)
    state = candidate(batch, version, built, base)
    gaps = tuple(dict.fromkeys((*state.gaps, *plan.shorter)))
    expected = check(batch, (change.before, change.live), (change.after, state), change.new.every_view, version=version.number)
    try:
        refuse_unmet(expected, f"release {change.after.number} is not built; correct the definitions and apply again")
    except ExpectationUnmet as error:
        batch.standing.record("failed", replace(state, why=str(error)))
        raise
    record = batch.standing.record("built", replace(state, kind="apply", gaps=gaps))
    return record.state, sum(one.done.written for one in built), expected


def keep_unread(batch: BatchRun, base: Publication, views: Sequence[UnreadView]) -> Publication:
    """The initial state of a release, with the batch views of the live release that these views can continue.

    A view continues its batch view if no archived record below the live cut is rejected for the fields that the source's event
    gained (tandem.views.fingerprint.unread_fields). The archive must be decoded for both releases.

    The source's counts are computed again nevertheless: conflicts compare duplicates by content, and may be more.
    """
    kept = [view for view in views if _continues(batch, view)]
    return replace(
        base,
        views={**base.views, **{view.name: view.batch_view for view in kept}},
        rejected={**base.rejected, **{view.name: view.rejected for view in kept if view.rejected is not None}},
        after_final={**base.after_final, **{view.name: view.after_final for view in kept if view.after_final is not None}},
    )


def _continues(batch: BatchRun, view: UnreadView) -> bool:
    """Whether the view continues its batch view, which is reported."""
    fields = ", ".join(view.fields)
    if same_records(batch.tables, view.source, *view.decoders, view.cut):
        batch.say(f"{view.name}: keeps its batch view: it does not read {fields}, and no archived record is rejected for them")
        return True
    batch.say(f"{view.name}: is recomputed: {fields} rejects archived records that were events")
    return False


def same_records(tables: Tables, source: str, before: str, now: str, cut: Position) -> bool:
    """Whether two decoders found as many events, records and rejects in every archive run that reaches below the cut.

    Runs that reach beyond it count whole: a record there may cause a fold that is not needed, never the reverse.
    """
    ledger = ArchiveLedger(tables, source)
    runs = {run.number for run in ledger.runs() if not cut.at_or_below(run.start)}
    found = [
        {
            summary.run: (counts.events, counts.records, counts.rejects, counts.others, counts.holes)
            for summary in ledger.summaries(decoder)
            if summary.run in runs
            for counts in (summary.counts,)
        }
        for decoder in (before, now)
    ]
    return found[0] == found[1] and found[0].keys() == runs


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
