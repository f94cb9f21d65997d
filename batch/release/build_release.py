"""Build a release beside the live one: begin at the live cut, decode, keep valid batch views, fold the others, record the result.

Answers read none of it before the release is promoted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from batch.archive.archive import decode_archived
from batch.recompute.build import NewVersion, build_all, commit, version_number
from batch.recompute.candidate import candidate
from batch.recompute.plan import Request, Step
from batch.release.change import Change, initial_state, missing_steps, only_new_measures, without_batch_view
from batch.release.unread_fields import keep_unread
from batch.runtime.session import BatchRun
from ledger import cuts
from ledger.log.gaps import Gap
from ledger.publish import standing
from ledger.publish.completeness import accepted_gaps, shorter_histories
from ledger.publish.publications import Publication


@dataclass(frozen=True)
class Terms:
    """The options of a build.

    * `accepted`: the names of accepted gaps.
    * `shorter_history`: build views even if the archive has fewer records than the live views have counted.
    * `max_lag`: the release is ready once its realtime views are at most this many offsets behind the live ones.
    """

    accepted: tuple[str, ...] = ()
    shorter_history: bool = False
    max_lag: int = 1000


@dataclass(frozen=True)
class ReleasePlan:
    """The initial state of a release, and the steps to complete it.

    It counts without the `gaps`; `shorter` names the sources of which the archive has fewer records than the live views counted.
    """

    base: Publication
    steps: tuple[Step, ...]
    gaps: tuple[Gap, ...]
    shorter: tuple[str, ...]


@dataclass(frozen=True)
class BuiltRelease:
    """The state of a built release, and the number of written bytes of view data."""

    state: Publication
    written: int


def build_release(batch: BatchRun, change: Change, terms: Terms) -> BuiltRelease:
    """Build the views that the live release does not have at its cut. If the run is killed, the next run starts over.

    Raises TandemError if a gap or a shorter history is not accepted, or if a step fails.
    """
    plan = plan_release(batch, change, terms)
    mark_live_cuts(batch, change)
    standing.record(batch.tables, "applied", plan.base)
    decode(batch, change, plan.steps)
    if not plan.shorter:
        plan = keep(batch, change, plan)
    return build_missing(batch, change, plan)


def plan_release(batch: BatchRun, change: Change, terms: Terms) -> ReleasePlan:
    """Decide the initial state of the release, and what to build."""
    gaps = accepted_gaps(batch.tables, change.live, change.new.sources, terms.accepted)
    base = initial_state(change, by=batch.by, at=batch.now())
    steps = missing_steps(change, base)
    sources = (step.source for step in steps)
    shorter = shorter_histories(batch.tables, change.live, sources, accepted=terms.shorter_history)
    # The other measures of a view have counted records that the archive no longer has: new measures would not match them.
    steps = steps if shorter else only_new_measures(change, steps)
    return ReleasePlan(base, tuple(steps), gaps, shorter)


def mark_live_cuts(batch: BatchRun, change: Change) -> None:
    """Mark the live cut in the release's realtime tables: once it is recorded as applied, the speed layer starts there."""
    for source in change.new.sources:
        if change.live.cut(source).offsets:
            cuts.begin(batch.tables, change.after.number, source, change.live.cut(source), by=batch.by, at=batch.now())


def decode(batch: BatchRun, change: Change, steps: Sequence[Step]) -> None:
    """Decode the archive again for sources whose decoder has changed. Waits for the lock of archive runs."""
    for step in steps:
        if change.other_decoder(step.source):
            batch.hold("archive")
            decode_archived(batch, change.after, change.new.sources[step.source])


def keep(batch: BatchRun, change: Change, plan: ReleasePlan) -> ReleasePlan:
    """Keep the batch views that stay valid although the event type of their source gained fields."""
    base = keep_unread(batch, plan.base, change)
    return replace(plan, base=base, steps=tuple(without_batch_view([*plan.steps], base)))


def build_missing(batch: BatchRun, change: Change, plan: ReleasePlan) -> BuiltRelease:
    """Do the steps, commit their files, and record the release as built."""
    request = Request(keep_cut=True)
    version = NewVersion(version_number(batch.now()), plan.base, change.after, change.new, request, plan.gaps)
    built = build_all(batch, version, plan.steps)
    commit(batch.tables, version, built)
    state = candidate(batch, version, built, plan.base)
    gaps = tuple(dict.fromkeys((*state.gaps, *plan.shorter)))
    record = standing.record(batch.tables, "built", replace(state, kind="apply", gaps=gaps))
    return BuiltRelease(record.state, sum(one.done.written for one in built))
