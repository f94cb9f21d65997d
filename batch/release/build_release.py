"""Build a release beside the live one: plan, begin at the live cut, decode, keep valid batch views, fold the others.

Answers read none of it before the release is promoted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tandem.batch.archive.decode_runs import decode_archived
from tandem.batch.recompute.build import NewVersion, build_all, commit, version_number
from tandem.batch.recompute.candidate import candidate
from tandem.batch.recompute.plan import Request, Step
from tandem.batch.release.change import Change, initial_state, missing_steps, only_new_measures, without_batch_view
from tandem.batch.release.unread_fields import UnreadView, keep_unread, unread_views
from tandem.batch.runtime.session import BatchRun
from tandem.ledger import cuts
from tandem.ledger.log.gaps import Gap
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import standing
from tandem.ledger.publish.completeness import accepted_gaps, shorter_histories
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.views.project.project import Project
from tandem.views.source.source import Source


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

    Args:
        base: the initial state.
        cuts: the live cut of each source, where the speed layer starts.
        undecoded: the sources of which the archive is decoded again.
        unread: the views that may continue their live batch views.
        steps: what to fold if no view continues its batch view.
        gaps: the gaps without which the release counts.
        shorter: a sentence for each source of which the archive has fewer records than the live views counted.
    """

    release: Release
    definitions: Project
    base: Publication
    cuts: Mapping[str, Position] = field(hash=False)
    undecoded: tuple[Source, ...]
    unread: tuple[UnreadView, ...]
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
    begin(batch, plan)
    decode(batch, plan)
    return build_missing(batch, keep(batch, plan))


def plan_release(batch: BatchRun, change: Change, terms: Terms) -> ReleasePlan:
    """Decide the initial state of the release, and what to build. Raises TandemError for what the terms do not accept."""
    live, new = change.live, change.new
    gaps = accepted_gaps(batch.tables, live, new.sources, terms.accepted)
    base = initial_state(change, by=batch.by, at=batch.now())
    steps = missing_steps(change, base)
    shorter = shorter_histories(batch.tables, live, (step.source for step in steps), accepted=terms.shorter_history)
    # The other measures of a view have counted records that the archive no longer has: new measures would not match them.
    return ReleasePlan(
        release=change.after,
        definitions=new,
        base=base,
        cuts={source: live.cut(source) for source in new.sources if live.cut(source).offsets},
        undecoded=tuple(new.sources[step.source] for step in steps if change.other_decoder(step.source)),
        unread=() if shorter else tuple(unread_views(change)),
        steps=tuple(steps if shorter else only_new_measures(change, steps)),
        gaps=gaps,
        shorter=shorter,
    )


def begin(batch: BatchRun, plan: ReleasePlan) -> None:
    """Mark the live cuts in the release's realtime tables, then record it as applied: then the speed layer starts there."""
    for source, cut in plan.cuts.items():
        cuts.begin(batch.tables, plan.release.number, source, cut, by=batch.by, at=batch.now())
    standing.record(batch.tables, "applied", plan.base)


def decode(batch: BatchRun, plan: ReleasePlan) -> None:
    """Decode the archive again for sources whose decoder has changed. Waits for the lock of archive runs."""
    for source in plan.undecoded:
        batch.hold("archive")
        decode_archived(batch, plan.release, source)


def keep(batch: BatchRun, plan: ReleasePlan) -> ReleasePlan:
    """Keep the batch views that stay valid although the event type of their source gained fields."""
    base = keep_unread(batch, plan.base, plan.unread)
    return replace(plan, base=base, steps=tuple(without_batch_view([*plan.steps], base)))


def build_missing(batch: BatchRun, plan: ReleasePlan) -> BuiltRelease:
    """Do the steps, commit their files, and record the release as built."""
    request = Request(keep_cut=True)
    version = NewVersion(version_number(batch.now()), plan.base, plan.release, plan.definitions, request, plan.gaps)
    built = build_all(batch, version, plan.steps)
    commit(batch.tables, version, built)
    state = candidate(batch, version, built, plan.base)
    gaps = tuple(dict.fromkeys((*state.gaps, *plan.shorter)))
    record = standing.record(batch.tables, "built", replace(state, kind="apply", gaps=gaps))
    return BuiltRelease(record.state, sum(one.done.written for one in built))
