"""What the working tree's definitions would have answered at checkpoints of the past, beside the live release.

The release is what `apply` would store, and is refused for the same reasons. Its views and the live ones are folded over
the events below the live cut, each event from its append time on. Nothing is published, and no file is left.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Generic

from tandem.batch.fold.lookup_files import write_versions
from tandem.batch.fold.two_versions import Side
from tandem.batch.points.log_of_part import LogOfPart, log_of_part
from tandem.batch.rebuild.gather_events import gather_events
from tandem.batch.rebuild.inputs import LogRange
from tandem.batch.rehearse.checkpoints import SourceAt, TimedLog, checkpoints, source_at
from tandem.batch.rehearse.fold_checkpoints import Compare, Cost, RehearsalJob, Result, SidePiece, answer, send, states_of
from tandem.batch.release.release_plan import Change, Terms, plan_release
from tandem.batch.runtime import scratch, spark_jobs
from tandem.batch.runtime.parallelism import buckets, in_log_order
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish import adoption
from tandem.ledger.publish.publications import Publication, no_publication
from tandem.ledger.publish.releases import Release
from tandem.views.arrow.arrays import from_ipc
from tandem.views.composite.rollup import root
from tandem.views.composite.table import looked_up
from tandem.views.composite.together import parts
from tandem.views.errors import TandemError, listed
from tandem.views.fingerprint.hashed_parts import fingerprint, source_meaning
from tandem.views.instant import microseconds
from tandem.views.kernel import kernel
from tandem.views.project.project import Project
from tandem.views.source.source import Source
from tandem.views.source.united_source import sources_of
from tandem.views.source.watermark import least
from tandem.views.view import View


@dataclass(frozen=True)
class RehearsedView(Generic[Result]):
    """A view that was rehearsed.

    Args:
        status: changed, added, removed or unchanged. An unchanged view is folded once, and both sides have that cost.
        results: what the comparison returned for its keys.
        costs: by side.
    """

    status: str
    results: tuple[Result, ...]
    costs: Mapping[Side, Cost] = field(hash=False)


@dataclass(frozen=True)
class Rehearsal(Generic[Result]):
    """A rehearsal of a change at checkpoints, in microseconds since 1970.

    Args:
        sources: by side and name, what each source had at each checkpoint.
        views: by name, the views that were rehearsed: those that differ, have an alert or were named.
    """

    change: Change
    checkpoints: tuple[int, ...]
    sources: Mapping[tuple[Side, str], tuple[SourceAt, ...]] = field(hash=False)
    views: Mapping[str, RehearsedView[Result]] = field(hash=False)


@dataclass(frozen=True)
class _SourceLog:
    """The events of a source as one release decodes them.

    Args:
        timed: for tasks that read their times.
        slices: all events.
        log: with copies apart, for tasks that fold.
        pieces: the pieces of `log`.
    """

    timed: TimedLog
    slices: tuple[Slice, ...]
    log: LogOfPart
    pieces: tuple[Slice | str, ...]


@dataclass(frozen=True)
class _Gathered:
    """By side and source, the events, and what the source had at each checkpoint."""

    logs: Mapping[tuple[Side, str], _SourceLog]
    sources: Mapping[tuple[Side, str], tuple[SourceAt, ...]]


@dataclass(frozen=True)
class _Run:
    batch: BatchRun
    change: Change
    undecoded: frozenset[str]
    checkpoints: tuple[int, ...]

    def release(self, side: Side) -> Release:
        return self.change.before if side == "old" else self.change.after

    def project(self, side: Side) -> Project:
        return self.change.old if side == "old" else self.change.new


def rehearse(
    batch: BatchRun,
    wanted: Project,
    terms: Terms,
    compare: Compare[Result],
    *,
    since: timedelta,
    every: timedelta,
    views: Sequence[str] = (),
) -> Rehearsal[Result]:
    """Rehearse the wanted definitions at checkpoints that reach from the newest event below the live cut back by `since`.

    `compare` gets the checkpoints of each view in order, for some keys at a time. `views` names those to rehearse; by default
    those that differ or have an alert. Holds the lock of the views' tables. Raises TaskFailed, Unreadable, and what plan_release
    raises.
    """
    batch.hold("views")
    live = batch.standing.publications.latest()
    if live is None or not live.cuts:
        raise no_publication()
    if not live.newest:
        raise TandemError(
            f"publication {live.number} counts no event, so there is nothing to rehearse", code=no_publication().code
        )
    times = checkpoints(microseconds(max(live.newest.values())), since, every)
    run = _run(batch, live, wanted, terms, times)
    statuses = _statuses(run.change)
    chosen = _names(run.change, statuses, views)
    scratch.clear(batch.tables)
    try:
        logs = _logs(run, chosen)
        at = source_at(batch.session, [(log.timed, log.slices) for log in logs.values()])
        gathered = _Gathered(logs, dict(zip(logs, at, strict=True)))
        rehearsed = {name: _rehearse_view(run, gathered, name, statuses[name], compare) for name in chosen}
    finally:
        scratch.clear(batch.tables)
    return Rehearsal(run.change, times, gathered.sources, rehearsed)


def _run(batch: BatchRun, live: Publication, wanted: Project, terms: Terms, times: tuple[int, ...]) -> _Run:
    """The change that `apply` would make. If `apply` would do nothing, the definitions may still differ in their alerts."""
    days, at = batch.settings.keep.release_days, batch.now()
    plan = plan_release(batch.standing, batch.releases, live, wanted, terms, days=days, by=batch.by, at=at)
    if plan is not None:
        return _Run(batch, plan.change, frozenset(source.name for source in plan.undecoded), times)
    before = batch.releases.load(live.release)
    return _Run(
        batch, Change(live, before, adoption.candidate(wanted, before.number + 1, by=batch.by, at=at)), frozenset(), times
    )


def _statuses(change: Change) -> dict[str, str]:
    old, new = change.old.every_view, change.new.every_view
    statuses = {}
    for name in dict.fromkeys((*new, *old)):
        if name in old and name in new:
            statuses[name] = "unchanged" if fingerprint(old[name]) == fingerprint(new[name]) else "changed"
        else:
            statuses[name] = "added" if name in new else "removed"
    return statuses


def _names(change: Change, statuses: Mapping[str, str], views: Sequence[str]) -> list[str]:
    for name in views:
        if name not in statuses:
            raise TandemError(f"no view {name!r} in either release; views: {listed(name, statuses)}", code="view-unknown")
    if views:
        return list(dict.fromkeys(views))
    alerted = {alert.view.name for project in (change.old, change.new) for alert in project.alerts.values()}
    return [name for name, status in statuses.items() if status != "unchanged" or name in alerted]


def _views(change: Change, name: str) -> dict[Side, View]:
    sides: tuple[tuple[Side, Project], ...] = (("old", change.old), ("new", change.new))
    return {side: project.every_view[name] for side, project in sides if name in project.every_view}


def _tables_of(view: View) -> dict[str, View]:
    """The views of versions in which a view looks up, by name."""
    return {name: of for part in parts(root(view)) for name, of in looked_up(part).items()}


def _logs(run: _Run, names: Sequence[str]) -> dict[tuple[Side, str], _SourceLog]:
    """The events that these views read, by side and source; both sides share those of a source with the same meaning."""
    logs: dict[tuple[Side, str], _SourceLog] = {}
    wanted = [
        (side, source)
        for name in names
        for side, view in _views(run.change, name).items()
        for each in (view, *_tables_of(view).values())
        for source in sources_of(each.source)
    ]
    for side, source in dict.fromkeys((side, source.name) for side, source in wanted):
        of = run.project(side).sources[source]
        other = run.project("old").sources.get(source)
        shared = logs.get(("old", source))
        if side == "new" and shared is not None and other is not None and _alike(run, of, other):
            logs[side, source] = shared
        else:
            logs[side, source] = _log(run, side, of)
    return logs


def _alike(run: _Run, source: Source, other: Source) -> bool:
    return not run.change.other_decoder(source.name) and source_meaning(source) == source_meaning(other)


def _log(run: _Run, side: Side, source: Source) -> _SourceLog:
    batch, release, cut = run.batch, run.release(side), run.change.live.cut(source.name)
    place = scratch.scratch(batch.tables)
    if not cut.offsets:
        return _SourceLog(TimedLog(release.files, source.name, place, run.checkpoints), (), LogOfPart(place, ()), ())
    batch.say(f"{source.name}: reading its events as release {release.number} decodes them")
    raw = side == "new" and source.name in run.undecoded
    gathered = gather_events(batch, LogRange(release, source, LOG_START, cut, raw=raw), cut, place)
    apart = LogOfPart(gathered.events.place, gathered.archived.generations)
    slices = gathered.slices.compared
    log, pieces = log_of_part(batch, release.files, source, apart, slices)
    return _SourceLog(TimedLog(release.files, source.name, log.events, run.checkpoints), slices, log, pieces)


def _rehearse_view(run: _Run, gathered: _Gathered, name: str, status: str, compare: Compare[Result]) -> RehearsedView[Result]:
    views = _views(run.change, name)
    run.batch.say(f"{name}: {len(run.checkpoints)} checkpoints")
    folded: tuple[Side, ...] = ("old",) if status == "unchanged" else tuple(views)
    versions = {side: _versions(run, gathered, side, views[side]) for side in folded}
    results = _fold(run, gathered, replace(_job(run, gathered, name, folded), versions=versions), compare)
    costs = {side: _sum(side, [cost for cost in results if isinstance(cost, Cost)]) for side in folded}
    if status == "unchanged":
        costs["new"] = costs["old"]
    return RehearsedView(status, tuple(each for each in results if not isinstance(each, Cost)), costs)


def _job(run: _Run, gathered: _Gathered, name: str, folded: tuple[Side, ...]) -> RehearsalJob:
    views = _views(run.change, name)
    places = {(side, part.name): (side, part.source.name) for side in folded for part in parts(root(views[side]))}
    rows = sum(piece.rows for place in places.values() for piece in gathered.logs[place].slices)
    there = run.change.live.views.get(root(views[folded[0]]).name)
    return RehearsalJob(
        {"old": run.change.before.files, "new": run.change.after.files},
        name,
        folded,
        {part: gathered.logs[place].log for part, place in places.items()},
        scratch.scratch(run.batch.tables),
        run.checkpoints,
        {side: tuple(_watermarks(gathered.sources, side, view)) for side, view in views.items() if _has(gathered, side, view)},
        None if there is None else there.first_window,
        buckets(rows, in_log_order=any(map(in_log_order, views.values())), parallelism=run.batch.parallelism),
    )


def _fold(run: _Run, gathered: _Gathered, job: RehearsalJob, compare: Compare[Result]) -> list[Result | Cost]:
    views = job.views()
    items = [
        SidePiece(side, part.name, piece)
        for side in job.folded
        for part in parts(root(views[side]))
        for piece in gathered.logs[side, part.source.name].pieces
    ]
    return spark_jobs.each_then(run.batch.session, partial(send, job), partial(answer, job, compare), items, job.buckets)


def _versions(run: _Run, gathered: _Gathered, side: Side, view: View) -> tuple[Mapping[str, str], ...]:
    """For each checkpoint, by table, the scratch file of the versions in which a view looks up."""
    tables = {name: _versions_of_table(run, gathered, side, of) for name, of in _tables_of(view).items()}
    return tuple({name: files[number] for name, files in tables.items()} for number, _ in enumerate(run.checkpoints))


def _versions_of_table(run: _Run, gathered: _Gathered, side: Side, table: View) -> list[str]:
    """For each checkpoint, the scratch file of a table's versions; that of the one before if no event has arrived since."""
    results = _fold(run, gathered, _job(run, gathered, table.name, (side,)), partial(states_of, side))
    counts = [at.counts for at in gathered.sources[side, table.source.name]]
    files = list[str]()
    for number, count in enumerate(counts):
        if number and count == counts[number - 1]:
            files.append(files[-1])
            continue
        some = [from_ipc(each.states) for each in results if not isinstance(each, Cost) and each.number == number]
        versions = kernel.versions(table, kernel.merge_states(table, some))
        files.append(write_versions(scratch.scratch(run.batch.tables), {table.name: versions})[table.name])
    return files


def _has(gathered: _Gathered, side: Side, view: View) -> bool:
    return all((side, source.name) in gathered.sources for source in sources_of(view.source))


def _watermarks(sources: Mapping[tuple[Side, str], tuple[SourceAt, ...]], side: Side, view: View) -> Iterator[int | None]:
    of = [sources[side, source.name] for source in sources_of(view.source)]
    return (least([each.watermark for each in some]) for some in zip(*of, strict=True))


def _sum(side: Side, costs: Sequence[Cost]) -> Cost:
    some = [cost for cost in costs if cost.side == side]
    return Cost(side, sum(each.events for each in some), sum(each.seconds for each in some), sum(each.bytes for each in some))
