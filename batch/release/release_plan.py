"""The plan of a release: what `tandem plan` prints is what `tandem apply` does. Building a plan writes nothing.

Two outcomes depend on data that only the run reads, so the plan names both: a view keeps its batch view if no archived record is
rejected for the fields that the source's event gained (`unread`), and new measures are folded alone if they count the same events
as the others (`Step.gained`). Otherwise the view is folded whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from tandem.batch.rebuild.inputs import Gained
from tandem.batch.recompute.plan import RecomputeStep, refuse_missing_records, tables_first
from tandem.batch.release.starting_time import Start, starting
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.gaps import Gap
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import adoption, promotion
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.completeness import accepted_gaps, shorter_histories
from tandem.ledger.publish.diffs import ReleaseDiffs
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release, Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.views.composite.dated import DatedView, before, pieces
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.fingerprint.definition_diff import DefinitionChanges, Fingerprints, compare, continued
from tandem.views.fingerprint.hashed_parts import fingerprint, source_meaning
from tandem.views.fingerprint.schema_evolution import refuse_breaks
from tandem.views.instant import LAST, time_of
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.source.source import Source

Status = Literal["unchanged", "changed", "added", "removed"]


@dataclass(frozen=True)
class Terms:
    """The options of a build.

    * `accepted`: the names of accepted gaps.
    * `shorter_history`: build views even if the archive has fewer records than the live views have counted.
    * `max_lag`: the release is ready once its realtime views are at most this many offsets behind the live ones.
    * `start`: windows that begin before it keep the live definitions (starting_time.py).
    """

    accepted: tuple[str, ...] = ()
    shorter_history: bool = False
    max_lag: int = 1000
    start: Start = None


@dataclass(frozen=True)
class Change:
    """The change from release `before`, whose newest publication is `live`, to release `after`."""

    live: Publication
    before: Release
    after: Release

    @cached_property
    def old(self) -> Project:
        """The live definitions. Raises TandemError if they cannot be loaded."""
        try:
            return project.load_files(self.before.files)
        except DefinitionError as error:
            raise TandemError(f"the definitions of release {self.before.number} cannot be used: {error}") from error

    @cached_property
    def new(self) -> Project:
        """The definitions of the new release."""
        return project.load_files(self.after.files)

    @cached_property
    def definitions(self) -> DefinitionChanges:
        """How the definitions differ."""
        return compare(self.old, self.new, Fingerprints(self.before.sources, self.before.views))

    @property
    def status(self) -> dict[str, Status]:
        """The outcome of each view of both releases."""
        found: dict[str, Status] = {}
        for name in dict.fromkeys((*self.after.views, *self.before.views)):
            if name not in self.after.views:
                found[name] = "removed"
            elif name not in self.before.views:
                found[name] = "added"
            else:
                found[name] = "unchanged" if self.after.views[name] == self.before.views[name] else "changed"
        return found

    def other_decoder(self, source: str) -> bool:
        """Whether the new release decodes a source differently, or is the first to read it."""
        return self.after.sources[source] != self.before.sources.get(source)


@dataclass(frozen=True)
class UnreadView:
    """A view that reads none of the `fields` that its source's event gained, so it may continue the live batch view.

    Args:
        cut: the live cut of the source.
        decoders: the fingerprints of the source's decoders, of the live release and of the new one.
        batch_view: the live batch view, under the view's new fingerprint.
        rejected: what the live view rejected, by reason; None if it has no such counts. So `after_final`.
    """

    name: str
    source: str
    fields: tuple[str, ...]
    cut: Position
    decoders: tuple[str, str]
    batch_view: BatchView
    rejected: Mapping[str, int] | None = field(hash=False)
    after_final: int | None


@dataclass(frozen=True)
class ReleasePlan:
    """What an `apply` does for a `change`, in this order.

    Args:
        ready: whether the release has been built before; then only `retired` is left to do.
        retired: the releases that were applied and never went live, which this release replaces.
        base: the initial state of the release.
        cuts: the live cut of each source, where the speed layer starts.
        undecoded: the sources of which the archive is decoded again.
        unread: the views that may continue their live batch views.
        steps: what to fold if no view continues its batch view.
        gaps: the gaps without which the release counts.
        shorter: a sentence for each source of which the archive has fewer records than the live views counted.
    """

    change: Change
    ready: bool
    retired: tuple[int, ...]
    base: Publication
    cuts: Mapping[str, Position] = field(default_factory=dict, hash=False)
    undecoded: tuple[Source, ...] = ()
    unread: tuple[UnreadView, ...] = ()
    steps: tuple[RecomputeStep, ...] = ()
    gaps: tuple[Gap, ...] = ()
    shorter: tuple[str, ...] = ()

    @property
    def compared(self) -> tuple[str, ...]:
        """The views whose answers are compared with the live ones."""
        return () if self.ready else tuple(name for name, status in self.change.status.items() if status == "changed")


def plan_release(
    standing: StandingReleases,
    releases: Releases,
    live: Publication,
    wanted: Project,
    terms: Terms,
    *,
    days: float,
    by: str,
    at: datetime,
) -> ReleasePlan | None:
    """Plan the release of the wanted definitions beside the live one; None if the live release has these definitions.

    `days` as in standing.Followed. Raises TandemError if a source could not read its published records, or the terms do not
    accept a gap or a shorter history, and BadRequest for a view with windows whose records have expired.
    """
    wanted = starting(releases, live, wanted, terms.start)
    newest, before, tables = releases.every()[-1], releases.load(live.release), standing.tables
    if adoption.defines(before, wanted):
        return None
    usable = promotion.ready(standing, days=days, at=at).keys() & ReleaseDiffs(tables).newest().keys()
    # What `apply` makes ready is always after the live release, so that `promote` without a number goes forward only.
    ready = newest.number > live.release and newest.number in usable and adoption.defines(newest, wanted)
    after = newest if ready else adoption.candidate(wanted, newest.number + 1, by=by, at=at)
    change = Change(live, before, after)
    refuse_breaks(change.old, change.new)
    plan = ReleasePlan(change, ready, _never_live(standing, after.number), initial_state(change, by=by, at=at))
    if ready:
        return plan
    new, gaps, steps = (
        change.new,
        accepted_gaps(tables, live, change.new.sources, terms.accepted),
        missing_steps(change, plan.base),
    )
    for step in steps:
        refuse_missing_records(step, new.views, live.maxima.get(step.source, {}), Erasures(tables).until(step.source))
    shorter = shorter_histories(tables, live, (step.source for step in steps), accepted=terms.shorter_history)
    return replace(
        plan,
        cuts={source: live.cut(source) for source in new.sources if live.cut(source).offsets},
        undecoded=tuple(new.sources[step.source] for step in steps if _is_undecoded(tables, change, step.source)),
        # The other measures of a view have counted records that the archive no longer has: new measures would not match them.
        unread=() if shorter else tuple(unread_views(change)),
        steps=tuple(steps if shorter else only_new_measures(change, steps)),
        gaps=gaps,
        shorter=shorter,
    )


def _is_undecoded(tables: Tables, change: Change, source: str) -> bool:
    """Whether the archive is not decoded yet for the new release, as it is if an earlier release had the same decoder."""
    return change.other_decoder(source) and bool(ArchiveLedger(tables, source).undecoded(change.after.sources[source]))


def _never_live(standing: StandingReleases, wanted: int) -> tuple[int, ...]:
    """The releases that were applied, never went live, and have not ended; without the wanted one."""
    published = {each.release for each in standing.publications.history()}
    newest = {one.state.release: one for one in standing.records()}
    return tuple(number for number, one in sorted(newest.items()) if number not in {*published, wanted} and not one.over)


def initial_state(change: Change, *, by: str, at: datetime) -> Publication:
    """The initial state of the new release: at the live cut, with the batch views that both releases share.

    A source whose records now decode into other events has no cut yet: its earlier counts are not valid any more.
    """
    live, after = change.live, change.after
    same = {name: name for name in after.sources if not change.other_decoder(name)}
    decoded_again = {name for name in after.sources if name not in same and live.cut(name).offsets}
    # With another `clock_skew` other events are ahead: the watermark is computed again.
    timed = {name: name for name in same if change.old.sources[name].clock_skew == change.new.sources[name].clock_skew}
    shared = continued({name: view.fingerprint for name, view in live.views.items()}, after.views)

    def of(mapping: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
        return {name: mapping[was] for name, was in names.items() if was in mapping}

    return Publication(
        number=0,
        parent=live.number,
        at=at,
        by=by,
        kind="apply",
        release=after.number,
        cuts={name: live.cut(name) if name in same else LOG_START for name in after.sources if name not in decoded_again},
        views={name: _batch_view(live, after, name, shared.get(name)) for name in after.views} | _batch_views_before(change),
        counts=of(live.counts, same),
        rejected=of(live.rejected, shared),
        newest=of(live.newest, same),
        maxima=of(live.maxima, timed),
        watermarks=of(live.watermarks, timed),
        after_final=of(live.after_final, shared),
        gaps=live.gaps,
    )


def missing_steps(change: Change, base: Publication) -> list[RecomputeStep]:
    """The steps that complete the state: for each source with a cut, the views without a batch view."""
    steps = []
    for source in tables_first(change.new):
        cut = change.live.cut(source)
        of = [name for name, view in change.new.views.items() if view.source.name == source]
        views = [name for name in of if not base.views[name].parts]
        if cut.offsets and (views or source not in base.cuts):
            steps.append(RecomputeStep(source, "full", LOG_START, cut, dict.fromkeys(views, ())))
        since = {name: start for name, start in continuation_starts(change).items() if name in of}
        for start in dict.fromkeys(since.values()):
            parts = {name: base.views[name].log_parts for name in since if since[name] == start}
            steps.append(RecomputeStep(source, "windows", LOG_START, cut, parts, windows=(start, time_of(LAST))))
    return steps


def continuation_starts(change: Change) -> dict[str, datetime]:
    """The views that continue the batch view of the live release for windows before a time, and the first window after it.

    Such a view counts those windows as the live release does, of the same events. What the live view rejected is not stored by
    window, so a view that rejected events is folded whole. So is a view that now keeps windows for another time.
    """
    live, starts = change.live, dict[str, datetime]()
    for name, view in change.new.views.items():
        there, source = live.views.get(name), view.source.name
        if not isinstance(view, DatedView) or there is None or there.fingerprint == change.after.views[name]:
            continue
        if not there.parts or there.fingerprint != change.before.views[name] or live.rejected.get(name):
            continue
        until, start = view.earlier[-1].until, pieces(view)[-1].start
        same = source_meaning(change.old.views[name].source) == source_meaning(change.new.sources[source])
        if start is None or not same or change.other_decoder(source) or view.keep != change.old.views[name].keep:
            continue
        if fingerprint(before(view, until)) == fingerprint(before(change.old.views[name], until)):
            starts[name] = start
    return starts


def _batch_views_before(change: Change) -> dict[str, BatchView]:
    views = {name: change.live.views[name] for name in continuation_starts(change)}
    return {
        name: BatchView(change.after.views[name], there.parts, at=there.at or f"{name}/{there.fingerprint}")
        for name, there in views.items()
    }


def only_new_measures(change: Change, steps: list[RecomputeStep]) -> list[RecomputeStep]:
    """The steps; views that only gained measures fold only these."""
    views = change.definitions.views
    added = {one.name: one.added_measures for one in views if one.computed_from == "events" and one.added_measures}

    def gained(step: RecomputeStep) -> dict[str, Gained]:
        return {
            name: Gained(added[name], change.live.views[name], change.live.rejected.get(name, {}))
            for name in step.views
            if name in added and step.windows is None and change.live.views[name].parts
        }

    return [replace(step, gained=gained(step)) for step in steps]


def unread_views(change: Change) -> Iterator[UnreadView]:
    """The views that may continue their live batch views although their source's event gained optional fields."""
    live, before, after = change.live, change.before, change.after
    for view in change.definitions.views:
        name, there = view.name, live.views.get(view.name)
        if not view.unread_fields or there is None or not there.parts or there.fingerprint != before.views[name]:
            continue
        source = change.new.views[name].source.name
        continued_view = replace(there, fingerprint=after.views[name], at=there.at or f"{name}/{there.fingerprint}")
        decoders = (before.sources[source], after.sources[source])
        counts = live.rejected.get(name), live.after_final.get(name)
        yield UnreadView(name, source, view.unread_fields, live.cut(source), decoders, continued_view, *counts)


def _batch_view(live: Publication, release: Release, name: str, was: str | None) -> BatchView:
    """The initial batch view of a view: that of the live view `was` that it continues, else an empty one."""
    fingerprint = release.views[name]
    if was is not None:
        there = live.views[was]
        return there if was == name else replace(there, at=there.at or f"{was}/{fingerprint}")
    taken = f"{name}/{fingerprint}" in {view.at for view in live.views.values()}
    return BatchView(fingerprint, at=f"{name}.{release.number}/{fingerprint}" if taken else "")
