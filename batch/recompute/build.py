"""Build the files of one batch version of a release, step by step. Nothing reads them before a publication or record names it."""

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
from deltalake import DeltaTable

from tandem.batch.fold.duplicates import RepeatedHashes
from tandem.batch.fold.fold_job import VERSION
from tandem.batch.fold.lookup_files import write_versions
from tandem.batch.rebuild.account import BatchViews
from tandem.batch.rebuild.inputs import Comparison, EarlierStates, LogRange, ViewTarget
from tandem.batch.rebuild.rebuild import Displaced, rebuild
from tandem.batch.recompute import estimate, plan
from tandem.batch.recompute.estimate import Expected
from tandem.batch.recompute.late_versions import Changed, any_late, changes, span, versions_of, windows_again
from tandem.batch.recompute.plan import Kind, RecomputeRequest, RecomputeStep
from tandem.batch.runtime import delta_commits, scratch
from tandem.batch.runtime.session import BatchRun
from tandem.infra.logs.telling import bound
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.log.counts import NOTHING, add, plus
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.gaps import Gap, Gaps, refuse_unaccepted, touching
from tandem.ledger.log.positions import LOG_START, Position, distance
from tandem.ledger.publish.audits import Obstacle
from tandem.ledger.publish.batch_parts import BatchPart, Windows, damage
from tandem.ledger.publish.label_counts import Labels, labels_below, repaired
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.rates import RunRates
from tandem.ledger.publish.releases import Release
from tandem.ledger.realtime.commit_files import paths_by_span
from tandem.ledger.realtime.tiling import chain
from tandem.views.composite.dated import DatedView
from tandem.views.composite.table import looked_up
from tandem.views.fingerprint.additive import same_events
from tandem.views.kernel.first_window import first_window
from tandem.views.project.project import Project
from tandem.views.source.watermark import Maxima
from tandem.views.source.watermark import newest as united
from tandem.views.view import View, state_schema
from tandem.views.windows import WINDOW_COLUMNS


def served(
    tables: Tables, live: Publication, log: LogRange, views: Iterable[str], *, gaps: Sequence[Gap]
) -> EarlierStates | Obstacle:
    """What answers of these views were merged from over the range, or why they cannot be compared.

    Within a release a cut is a micro-batch boundary or the end of a bridge, so no micro-batch straddles it. Raises Unreadable.
    """
    source, cut = log.source.name, log.cut
    if touching(gaps, source, log.start, cut):
        return "gap"
    before = live.cut(source)
    parts = {name: live.views[name].parts if log.start == LOG_START else () for name in views}
    if any(any(damage(tables, live.views[name].address(tables, name), one)) for name in parts for one in parts[name]):
        return "damage"
    realtime = Location.of(tables, tables.realtime(live.release, source))
    if cut == before:
        return EarlierStates(parts, realtime, (), cut)
    paths = paths_by_span(tables, live.release, source)
    passed = [span for span in chain(paths, before).commits if span.end.at_or_below(cut)]
    end = passed[-1].end if passed else before
    return "bridge" if end == log.start else EarlierStates(parts, realtime, tuple(paths[span] for span in passed), end)


@dataclass(frozen=True)
class NewVersion:
    """A new batch version of a release, whose newest state is `base`; it counts without the `gaps`."""

    number: int
    base: Publication
    release: Release
    definitions: Project
    request: RecomputeRequest
    gaps: tuple[Gap, ...]


def version_number(now: datetime) -> int:
    """A number for a batch version: unique without a table of numbers, larger for later runs, exact in a double (53 bits)."""
    return (int(now.timestamp() * 1000) << 10) | secrets.randbits(10)


@dataclass(frozen=True)
class StepResult:
    """What a step did: `events` of `[start, cut)` folded into views in `seconds`.

    `ahead` is the estimate before the run, `written` the bytes of view data. A step of `windows` replaced those that start within
    these bounds.
    """

    source: str
    kind: Kind
    start: Position
    cut: Position
    views: tuple[str, ...]
    events: int
    seconds: float
    ahead: Expected
    written: int
    windows: Windows | None = None


@dataclass(frozen=True)
class Built:
    """What was built for a source.

    Args:
        kept: the parts of each view that stay before the new part.
        served: what answers were merged from before, or why they cannot be compared; None if the release is not live.
        number: the batch version.
        again: windows below the cut were folded again, because versions of a table changed.
        late: versions of a table changed.
    """

    done: StepResult
    kept: Mapping[str, tuple[BatchPart, ...]]
    views: BatchViews
    served: EarlierStates | Obstacle | None
    number: int = 0
    again: bool = False
    late: bool = False

    def part(self, view: str) -> BatchPart:
        """The new part of a view."""
        rows = sum(file.file.rows for file in self.views.files if file.view == view)
        return BatchPart(self.number, rows, self.done.cut, self.done.windows)


def build_all(batch: BatchRun, version: NewVersion, steps: Iterable[RecomputeStep], *, live: bool = False) -> list[Built]:
    """Do the steps that have something new below their cuts. Files join no table before `commit`. Raises TandemError.

    The results of a `live` release are compared with what was served. Raises GapNotAccepted for a gap below a cut that was
    recorded after the run had asked for its gaps: an archive run records gaps before the cut can be at its end.
    """
    scratch.clear(batch.tables)
    try:
        built = list[Built]()
        for step in steps:
            with bound(source=step.source, views=list(step.views), release=version.release.number):
                versions = {name: _versions(batch.tables, version, built, of) for name, of in _tables_of(version, step).items()}
                changed, views = _differences(batch, version, step, versions), version.definitions.views
                again = {}
                if changed and step.kind == "incremental":
                    times = span(batch.tables, version.definitions.sources[step.source], version.release.sources[step.source])
                    before = {name: views[name] for name, parts in step.views.items() if parts}
                    again = windows_again(before, changed, times, batch.say)
                whole = [name for name, windows in again.items() if windows is None]
                now = replace(step, views={name: parts for name, parts in step.views.items() if name not in whole})
                if step.kind == "incremental" and step.cut == step.start:
                    batch.say(f"{step.source}: nothing archived since the published cut")
                elif now.views or not step.views:  # without any views the source is counted alone
                    _refuse_late_gaps(batch.tables, version, step)
                    _refuse_missing(batch.tables, version, now, version.base.maxima.get(step.source, {}))
                    built += _build(batch, version, now, versions, live=live)
                for late in _late_steps(step, again, built):
                    other = replace(version, number=version_number(batch.now()))
                    _refuse_missing(batch.tables, version, late, version.base.maxima.get(step.source, {}))
                    built += [replace(each, again=True) for each in _build(batch, other, late, versions, live=live)]
                built = [replace(each, late=any_late(changed)) if each.done.source == step.source else each for each in built]
        return built
    finally:
        scratch.clear(batch.tables)


def _tables_of(version: NewVersion, step: RecomputeStep) -> dict[str, View]:
    """The views of versions in which a step's views look up."""
    views = version.definitions.views
    return {name: of for view in step.views for name, of in looked_up(views[view]).items()}


def _versions(tables: Tables, version: NewVersion, built: Sequence[Built], view: View) -> pa.Table:
    """A table's versions below the cut of its source that this run publishes. Raises Unreadable."""
    parts, paths = version.base.views[view.name].parts, list[str]()
    for each in (each for each in built if view.name in each.kept):
        parts, paths = each.kept[view.name], [file.file.path for file in each.views.files if file.view == view.name]
    return versions_of(tables, view, _address(tables, version, view.name), parts, paths)


def _differences(batch: BatchRun, version: NewVersion, step: RecomputeStep, versions: Mapping[str, pa.Table]) -> Changed:
    """What differs from the versions that earlier runs had."""
    views = _tables_of(version, step)
    before = {name: _versions(batch.tables, version, (), of) for name, of in views.items()}
    return {name: (of, versions[name], changes(of, before[name], versions[name])) for name, of in views.items()}


def _late_steps(
    step: RecomputeStep, again: Mapping[str, list[Windows] | None], built: Sequence[Built]
) -> Iterator[RecomputeStep]:
    """The steps that fold windows again at the step's cut, after what it has built of new events."""
    done = dict(step.views)
    for each in built:
        done |= {name: (*kept, each.part(name)) for name, kept in each.kept.items() if name in done}
    ranges = dict.fromkeys(windows for some in again.values() for windows in some or ())
    for windows in ranges:
        views = {name: done[name] for name, some in again.items() if some and windows in some}
        yield replace(step, kind="windows", start=LOG_START, views=views, windows=windows)
        # The caller builds each step before it asks for the next.
        done |= {name: (*kept, each.part(name)) for each in built for name, kept in each.kept.items() if name in views}
    if whole := [name for name, some in again.items() if some is None]:
        yield replace(step, kind="full", start=LOG_START, views=dict.fromkeys(whole, ()))


def _refuse_late_gaps(tables: Tables, version: NewVersion, step: RecomputeStep) -> None:
    assert step.cut is not None  # `with_cuts` has taken it
    late = [gap for gap in Gaps(tables).of(step.source) if gap not in version.gaps]
    refuse_unaccepted(list(touching(late, step.source, step.start, step.cut)), ())


def _refuse_missing(tables: Tables, version: NewVersion, step: RecomputeStep, maxima: Maxima) -> None:
    plan.refuse_missing_records(step, version.definitions.views, maxima, Erasures(tables).until(step.source))


def _build(
    batch: BatchRun,
    version: NewVersion,
    step: RecomputeStep,
    versions: Mapping[str, pa.Table],
    *,
    live: bool,
    searched: RepeatedHashes | None = None,
) -> list[Built]:
    """Rebuild the step's views up to the cut, and compare them with what was served if the release is live.

    A full step comes after one whose events would change what some views count below its start, for these views alone. All
    measures are folded instead of new ones that count other events. `searched` are the duplicates in the step's range, if known.
    """
    began = time.monotonic()
    assert step.cut is not None  # `with_cuts` has taken the cut
    source, request = version.definitions.sources[step.source], version.request
    place = scratch.scratch(batch.tables)
    read = write_versions(place, {name: versions[name] for name in _tables_of(version, step)})
    log = LogRange(version.release, source, step.start, step.cut, step.windows, request.raw, read)
    targets = _targets(version, step, distance(step.start, step.cut))
    ahead = _expected(batch, log, step)
    against = served(batch.tables, version.base, log, targets, gaps=version.gaps) if live else None
    for name in targets:
        _table(batch.tables, version, name)  # before its files, so that `maintain` finds and fences what a killed run leaves
    comparison = Comparison(against if isinstance(against, EarlierStates) else None)
    try:
        views = rebuild(batch, log, targets, comparison, version=version.number, scratch=place, searched=searched)
    except Displaced as displaced:
        if step.kind == "full":
            raise
        affected = [name for name in step.views if name in displaced.views]
        batch.say(f"{step.source}: {displaced}; folding all events below the cut into {', '.join(affected)}")
        others = {name: parts for name, parts in step.views.items() if name not in displaced.views}
        added = replace(step, views=others)
        built = _build(batch, version, added, versions, live=live, searched=displaced.duplicates) if others else []
        # Last: a full step counts the source's events from the start on, and `candidate` takes the last count.
        whole = replace(step, kind="full", start=LOG_START, views=dict.fromkeys(affected, ()))
        return [*built, *_build(batch, version, whole, versions, live=live)]
    if step.windows is None:
        _refuse_missing(batch.tables, version, step, views.maxima)
    if unlike := other_events(version.base, step, views):
        batch.say(f"{step.source}: other events count for {', '.join(unlike)} than before; folding all measures")
        return _build(batch, version, replace(step, gained={}), versions, live=live)
    seconds = time.monotonic() - began
    RunRates(batch.tables).record(ahead.took(seconds, at=batch.now()))
    written = sum(file.file.size for file in views.files)
    done = StepResult(
        log.source.name, step.kind, log.start, log.cut, tuple(targets), views.counts.events, seconds, ahead, written, step.windows
    )
    kept = {name: parts[: len(parts) - len(targets[name].merged)] for name, parts in step.views.items()}
    return [Built(done, kept, views, against, version.number)]


def _targets(version: NewVersion, step: RecomputeStep, added: int) -> dict[str, ViewTarget]:
    """The views that a step of `added` offsets builds; only an incremental one merges stored parts with what it folds."""
    views, base = version.definitions.views, version.base.views
    targets = {name: ViewTarget(views[name], base[name], gained=step.gained.get(name)) for name in step.views}
    if step.kind != "incremental":
        return targets
    return {name: replace(target, merged=plan.merged(target, added)) for name, target in targets.items()}


def _expected(batch: BatchRun, log: LogRange, step: RecomputeStep) -> Expected:
    """Report how much the step will read."""
    ahead = estimate.expected(
        batch.tables,
        log.source,
        log.decoder,
        kind=estimate.RAW if log.raw else step.kind,
        views=len(step.views),
        start=log.start,
        end=log.cut,
        windows=log.windows,
    )
    batch.say(f"{step.source}: {step.kind}, from {log.start} to {log.cut}: {ahead.words}")
    for name, gained in step.gained.items():
        batch.say(f"{name}: folding only the new measures ({', '.join(gained.measures)}); the others are published")
    return ahead


def other_events(base: Publication, step: RecomputeStep, views: BatchViews) -> list[str]:
    """The views whose new measures count other events than their other measures (tandem.views.fingerprint.additive)."""
    return sorted(
        name
        for name, gained in step.gained.items()
        if name in views.unlike
        or views.counts.events != base.counts[step.source].events
        or not same_events(gained.rejected, views.rejected[name])
    )


def commit(tables: Tables, version: NewVersion, built: Sequence[Built]) -> None:
    """Add the files to the views' tables. Readers ignore the new version before it is published."""
    files = [file for one in built for file in one.views.files]
    for name in (name for one in built for name in one.kept):
        handle, lease = _table(tables, version, name), tables.lease(_address(tables, version, name))
        delta_commits.add_files(handle, [file.file for file in files if file.view == name], lease=lease)


def _table(tables: Tables, version: NewVersion, name: str) -> DeltaTable:
    """The table of a view, created and claimed; a definition from a time on may add columns to it."""
    view = version.definitions.views[name]
    schema = state_schema(view).append(pa.field(VERSION, pa.int64()))
    address = _address(tables, version, name)
    handle = delta_commits.make_table(tables, address, schema, partition_by=VERSION, bounded=WINDOW_COLUMNS)
    return delta_tables.add_columns(handle, schema, tables.lease(address)) if isinstance(view, DatedView) else handle


def _address(tables: Tables, version: NewVersion, name: str) -> str:
    return version.base.views[name].address(tables, name)


def candidate(batch: BatchRun, version: NewVersion, built: Sequence[Built], base: Publication) -> Publication:
    """The state after `base`, the newest state of the release: with the new parts, cuts, counts and labels."""
    cuts, views, counts = dict(base.cuts), dict(base.views), dict(base.counts)
    rejected, newest, maxima = dict(base.rejected), dict(base.newest), dict(base.maxima)
    watermarks, after_final, copies = dict(base.watermarks), dict(base.after_final), dict[str, int]()
    for one in built:
        name, done = one.done.source, one.done
        for view, kept in one.kept.items():
            views[view] = replace(base.views[view], parts=(*kept, one.part(view)))
        extends = done.kind == "incremental"
        for view in one.kept:
            # Windows are rebuilt of events that are counted already, unless the view is new: it has no others from its time on.
            if done.kind != "windows" or view not in base.rejected:
                rejected[view] = add(rejected.get(view, {}) if extends else {}, one.views.rejected[view])
        if (not version.request.at_published_cut or name not in counts) and not (one.again and done.kind == "windows"):
            before = counts.get(name, NOTHING) if extends else NOTHING
            maxima[name] = united([maxima.get(name, {}) if extends else {}, one.views.maxima])
            labels = _labels(batch.tables, version, name, done.cut, maxima=maxima[name], base=base)
            cuts[name], counts[name] = done.cut, replace(plus(before, one.views.counts), late=labels.late)
            after_final |= labels.after_final
            if labels.watermark is not None:
                watermarks[name] = labels.watermark
            found = repaired(batch.tables, base, version.release.number, name, cut=done.cut, below=counts[name])
            copies |= {name: found} if found is not None else {}
            known = newest.get(name) if extends else None
            times = [found for found in (known, one.views.newest) if found is not None]
            newest |= {name: max(times)} if times else {}
        for view in one.kept:
            first = first_window(version.definitions.views[view], maxima.get(name, {}))
            views[view] = views[view].with_gone(first, base.views[view])
    return replace(
        base,
        at=batch.now(),
        by=batch.by,
        kind="recompute",
        cuts=cuts,
        views=views,
        counts=counts,
        rejected=rejected,
        newest=newest,
        maxima=maxima,
        watermarks=watermarks,
        after_final=after_final,
        repaired=copies,
        gaps=tuple(dict.fromkeys((*base.gaps, *(gap.name for gap in version.gaps)))),
        why="",
    )


def _labels(tables: Tables, version: NewVersion, source: str, cut: Position, *, maxima: Maxima, base: Publication) -> Labels:
    views = [name for name, view in version.definitions.views.items() if view.source.name == source]
    return labels_below(
        tables,
        base,
        source,
        cut,
        views={name: version.release.views[name] for name in views},
        maxima=maxima,
        idle=version.definitions.sources[source].idle,
    )
