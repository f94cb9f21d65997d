"""Build a project's definitions as a release beside the live one, until it could go live at once.

The new release begins at the live cut: views that mean what they meant share their batch states, the others are folded from
the log below the cut, and the speed layer follows the log from there under the new definitions. Then the answers of both are
compared, key by key, over what lies below the cut. Readers see nothing of it. Killed anywhere, the next run goes on from what
stands, or starts over.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from batch.archive.archive import decode_archived
from batch.rebuild.job import Gained
from batch.recompute.build import Work, build_all, commit
from batch.recompute.candidate import candidate
from batch.recompute.plan import Request, Step
from batch.release.diff import diffs
from batch.release.unread_fields import keep_unread
from batch.runtime.session import Run
from ledger import cuts
from ledger.log.positions import LOG_START
from ledger.publish import diffs as kept_diffs
from ledger.publish import first_publication, promotion, publications, releases, standing
from ledger.publish.batch_parts import BatchView
from ledger.publish.completeness import accepted_gaps, shorter_histories
from ledger.publish.diffs import ReleaseDiff
from ledger.publish.publications import Publication
from ledger.publish.releases import Release
from views.errors import TandemError
from views.fingerprint.definition_diff import Fingerprints, compare, continued
from views.fingerprint.schema_evolution import refuse_breaks
from views.project import project
from views.project.project import Project
from views.verify.release_diff import Diff, to_json

_EVERY_S: Final = 0.2
_STILL_S: Final = 60.0
"""A speed layer that is alive commits several times a second, once it has its Spark session."""

Status = Literal["unchanged", "changed", "added", "removed"]


class CannotApply(TandemError):
    """Definitions that cannot be built beside the live ones; what stands is said."""


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
class Applied:
    """The release that is ready now, what became of every view, and how its answers differ; none if nothing is to apply.

    `written` is how many bytes of view data this run wrote.
    """

    live: Publication
    release: int | None = None
    status: Mapping[str, Status] = field(default_factory=dict, hash=False)
    diff: ReleaseDiff | None = None
    lags: Mapping[str, int] = field(default_factory=dict, hash=False)
    written: int = 0


def run(batch: Run, working_tree: Callable[[], Project], terms: Terms, *, sleep: Callable[[float], None] = time.sleep) -> Applied:
    """Make the working tree a release that stands ready. If nothing is published yet, it is published.

    Waits for another run that holds the lock, and until the release's realtime views have caught up. Raises TandemError: a
    source that would not read what is published of it, a gap or a shorter history that is not accepted, a release that fails.
    """
    tables = batch.tables
    wanted = working_tree()
    first_publication.live(tables, lambda: wanted, by=batch.by, at=batch.now())
    batch.hold("views")
    live = first_publication.live(tables, lambda: wanted, by=batch.by, at=batch.now())
    before = releases.load(tables, live.release)
    if before.defines(wanted):
        return Applied(live)
    refuse_breaks(project.load_files(before.files), wanted)
    days = batch.settings.keep.release_days
    usable = {
        number
        for number in promotion.ready(tables, days=days, at=batch.now())
        if kept_diffs.of_release(tables, number) is not None
    }
    over = {one.number for one in releases.every(tables)} - usable
    release = releases.adopt(tables, wanted, by=batch.by, at=batch.now(), over=over)
    _retire_unpromoted(batch, release)
    diff, written = kept_diffs.of_release(tables, release.number), 0
    if diff is None:
        state, written = _build(batch, live, before, release, terms)
        diff = _compare(batch, (before, live), (release, state))
    lags = _caught_up(batch, release.number, terms.max_lag, sleep)
    return Applied(live, release.number, _status(before, release), diff, lags, written)


def _retire_unpromoted(batch: Run, wanted: Release) -> None:
    """Definitions that were applied and never went live make room for the next ones."""
    tables = batch.tables
    published = {each.release for each in publications.history(tables)}
    for number in {one.state.release for one in standing.records(tables)} - published - {wanted.number}:
        one = standing.newest(tables, number)
        if one is not None and not one.over:
            why = f"release {wanted.number} replaces it"
            standing.record(tables, "retired", replace(one.state, by=batch.by, at=batch.now(), why=why))


def _build(batch: Run, live: Publication, before: Release, release: Release, terms: Terms) -> tuple[Publication, int]:
    """Let the release begin at the live cut, and build what the live one does not have there; the bytes of it."""
    tables, definitions = batch.tables, project.load_files(release.files)
    found = accepted_gaps(tables, live, definitions.sources, terms.accepted)
    base = _beginning(batch, live, before, release)
    steps = list(_steps(live, base, definitions))
    shorter = shorter_histories(tables, live, (step.source for step in steps), accepted=terms.shorter_history)
    if not shorter:
        steps = [replace(step, gained=_gained(live, before, definitions, step)) for step in steps]
    for source in definitions.sources:
        if live.cut(source).offsets:
            cuts.begin(tables, release.number, source, live.cut(source), by=batch.by, at=batch.now())
    standing.record(tables, "applied", base)
    for step in steps:
        if release.sources[step.source] != before.sources.get(step.source):
            batch.hold("archive")
            decode_archived(batch, release, definitions.sources[step.source])
    if not shorter:
        base = keep_unread(batch, base, live, before, release)
        steps = [replace(step, views={name: () for name in step.views if not base.views[name].parts}) for step in steps]
    work = Work(batch, base, release, definitions, Request(keep_cut=True), found)
    built = build_all(work, steps)
    commit(work, built)
    state = candidate(work, built, base)
    gaps = tuple(dict.fromkeys((*state.gaps, *shorter)))
    stands = standing.record(tables, "built", replace(state, kind="apply", gaps=gaps))
    return stands.state, sum(one.done.written for one in built)


def _beginning(batch: Run, live: Publication, before: Release, release: Release) -> Publication:
    """The state that the release begins with: what it shares with the live one, and what begins at the log's start."""
    same = {name: name for name, decoder in release.sources.items() if before.sources.get(name) == decoder}
    # Records become other events: what was counted of them below the cut says nothing.
    anew = {name for name in release.sources if name not in same and live.cut(name).offsets}
    old, new = (project.load_files(one.files).sources for one in (before, release))
    # By another bound other events are ahead: how far event time has come is found out again.
    timed = {name: name for name in same if old[name].clock_skew == new[name].clock_skew}
    shared = continued({name: view.fingerprint for name, view in live.views.items()}, release.views)
    views = {name: _batch_view(live, release, name, shared.get(name)) for name in release.views}

    def of(mapping: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
        return {name: mapping[was] for name, was in names.items() if was in mapping}

    return Publication(
        number=0,
        parent=live.number,
        at=batch.now(),
        by=batch.by,
        kind="apply",
        release=release.number,
        cuts={name: live.cut(name) if name in same else LOG_START for name in release.sources if name not in anew},
        views=views,
        counts=of(live.counts, same),
        rejected=of(live.rejected, shared),
        newest=of(live.newest, same),
        maxima=of(live.maxima, timed),
        watermarks=of(live.watermarks, timed),
        after_final=of(live.after_final, shared),
        gaps=live.gaps,
    )


def _batch_view(live: Publication, release: Release, name: str, was: str | None) -> BatchView:
    """The batch view that a view begins with: that of the live view which it continues, in the table that this has."""
    fingerprint = release.views[name]
    if was is not None:
        there = live.views[was]
        return there if was == name else replace(there, at=there.at or f"{was}/{fingerprint}")
    taken = f"{name}/{fingerprint}" in {view.at for view in live.views.values()}
    return BatchView(fingerprint, at=f"{name}.{release.number}/{fingerprint}" if taken else "")


def _steps(live: Publication, base: Publication, definitions: Project) -> Iterator[Step]:
    """What is folded: of every source that has a cut, the views that the live release does not have."""
    for source in definitions.sources:
        of = [name for name, view in definitions.views.items() if view.source.name == source]
        views = [name for name in of if not base.views[name].parts]
        if live.cut(source).offsets and (views or source not in base.cuts):
            yield Step(source, "full", LOG_START, live.cut(source), dict.fromkeys(views, ()))


def _gained(live: Publication, before: Release, definitions: Project, step: Step) -> dict[str, Gained]:
    """The step's views that are what they were, but for more measures."""
    changed = compare(project.load_files(before.files), definitions, Fingerprints(before.sources, before.views)).views
    added = {view.name: view.added_measures for view in changed if view.computed_from == "events" and view.added_measures}
    return {
        name: Gained(added[name], live.views[name], live.rejected.get(name, {}))
        for name in step.views
        if name in added and live.views[name].parts
    }


def _compare(batch: Run, old: tuple[Release, Publication], new: tuple[Release, Publication]) -> ReleaseDiff:
    """Compare, and keep what was found."""
    status = _status(old[0], new[0])
    changed = [name for name, what in status.items() if what == "changed"]
    found = diffs(batch, old, new, changed) if changed else {}
    views = {
        name: {"status": what, **(to_json(found.get(name, Diff())) if what == "changed" else {})} for name, what in status.items()
    }
    diff = ReleaseDiff(batch.now(), new[0].number, old[0].number, views)
    kept_diffs.record(batch.tables, diff)
    return diff


def _status(before: Release, release: Release) -> dict[str, Status]:
    found: dict[str, Status] = {}
    for name in dict.fromkeys((*release.views, *before.views)):
        if name not in release.views:
            found[name] = "removed"
        elif name not in before.views:
            found[name] = "added"
        else:
            found[name] = "unchanged" if release.views[name] == before.views[name] else "changed"
    return found


def _caught_up(batch: Run, number: int, max_lag: int, sleep: Callable[[float], None]) -> dict[str, int]:
    """Wait until the realtime views are near the live ones. Raises CannotApply if they stand still, or have failed."""
    tables = batch.tables
    least: dict[str, int] | None = None
    still = 0.0
    while True:
        newest, live = standing.newest(tables, number), publications.latest(tables)
        if newest is not None and newest.over:
            raise CannotApply(f"release {number} is {newest.stage}: {newest.state.why or 'by another command'}")
        if live is None or live.release == number:
            return {}
        state = standing.state_of(tables, number)
        lags = {} if state is None else promotion.lags(tables, state, live)
        if all(lag <= max_lag for lag in lags.values()):
            return lags
        if least is None:
            batch.say(f"release {number} is built; waiting for its realtime views to catch up ({_shown(lags)})")
        still = 0.0 if least is None or lags != least else still + _EVERY_S
        least = lags
        if still > _STILL_S:
            raise CannotApply(
                f"release {number} is built, but its realtime views do not advance ({_shown(lags)}); start the speed layer with "
                "`tandem up`, then `tandem apply` continues from here"
            )
        sleep(_EVERY_S)


def _shown(lags: Mapping[str, int]) -> str:
    return ", ".join(f"{source}: {lag} offsets behind" for source, lag in lags.items())
