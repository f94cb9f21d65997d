"""Build a release beside the live one: begin at the live cut, decode, keep what stays valid, fold what is missing, record it.

Nothing here is read by anybody before the release is promoted.
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
    """On what terms a release is built.

    `accepted` names gaps to count without. With `shorter_history` views are built also where the archive has less than what
    the live ones counted. It is ready once its realtime views are at most `max_lag` offsets behind the live ones.
    """

    accepted: tuple[str, ...] = ()
    shorter_history: bool = False
    max_lag: int = 1000


@dataclass(frozen=True)
class ReleasePlan:
    """The state in which a release begins and the steps that it lacks.

    It counts without the `gaps`; `shorter` names sources of which the archive has less than the live views counted.
    """

    base: Publication
    steps: tuple[Step, ...]
    gaps: tuple[Gap, ...]
    shorter: tuple[str, ...]


@dataclass(frozen=True)
class BuiltRelease:
    """The state of a release that was built, and the bytes of view data that were written."""

    state: Publication
    written: int


def build_release(batch: BatchRun, change: Change, terms: Terms) -> BuiltRelease:
    """Build what the live release does not have at its cut. Killed anywhere, the next run starts over.

    Raises TandemError: a gap or a shorter history that is not accepted, a step that fails.
    """
    plan = plan_release(batch, change, terms)
    mark_live_cuts(batch, change)
    standing.record(batch.tables, "applied", plan.base)
    decode(batch, change, plan.steps)
    if not plan.shorter:
        plan = keep(batch, change, plan)
    return build_missing(batch, change, plan)


def plan_release(batch: BatchRun, change: Change, terms: Terms) -> ReleasePlan:
    """Decide what the release begins with, and what is to build."""
    gaps = accepted_gaps(batch.tables, change.live, change.new.sources, terms.accepted)
    base = initial_state(change, by=batch.by, at=batch.now())
    steps = missing_steps(change, base)
    sources = (step.source for step in steps)
    shorter = shorter_histories(batch.tables, change.live, sources, accepted=terms.shorter_history)
    # The other measures of a view have counted more than the archive has: new ones alone would not fit them.
    steps = steps if shorter else only_new_measures(change, steps)
    return ReleasePlan(base, tuple(steps), gaps, shorter)


def mark_live_cuts(batch: BatchRun, change: Change) -> None:
    """Mark the live cut in the release's realtime tables: once it is recorded as applied, its speed layer follows from there."""
    for source in change.new.sources:
        if change.live.cut(source).offsets:
            cuts.begin(batch.tables, change.after.number, source, change.live.cut(source), by=batch.by, at=batch.now())


def decode(batch: BatchRun, change: Change, steps: Sequence[Step]) -> None:
    """Decode the archive again for sources that have another decoder. Waits for the lock of archive runs."""
    for step in steps:
        if change.other_decoder(step.source):
            batch.hold("archive")
            decode_archived(batch, change.after, change.new.sources[step.source])


def keep(batch: BatchRun, change: Change, plan: ReleasePlan) -> ReleasePlan:
    """Keep the batch views that stay valid although their source's event gained fields."""
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
