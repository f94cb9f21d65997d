"""Recompute batch views from the log, and publish them together with their cut.

A full run folds everything below the new cut; an incremental one what lies between the published cut and the new one, as one
more part of what is published; one of windows folds again what is in them. What is folded is compared with what was served
over the same range (batch/auditing.py); a difference that nothing explains ends the run before it publishes. A run builds a
batch version that nobody reads until one publication names it. Killed at any point, it leaves only files and rows that no
publication names; the next run starts over.
"""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa

from batch import auditing, commits, estimating, planning, scratch
from batch.archive import decode_archived
from batch.below_cut import SERVED, BatchViews, Below, Displaced, build
from batch.cutting import take_cut
from batch.estimating import Work
from batch.folding import VERSION
from batch.place import Place
from batch.planning import Kind, Request, Step
from batch.served import Served, served
from batch.session import Run
from ledger import archive, audits, first, gaps, publications, rates, releases
from ledger.audits import Audit, Obstacle
from ledger.counts import NOTHING, Counts, add, plus
from ledger.gaps import Gap
from ledger.labels import Labels, labels_below
from ledger.parts import BatchView, Part
from ledger.positions import LOG_START, Position, distance
from ledger.publications import Publication
from ledger.releases import Release
from ledger.repaired import repaired
from views import project
from views.evolution import refuse_breaks
from views.project import Project
from views.source import Source
from views.view import state_schema
from views.watermark import Maxima
from views.watermark import newest as united
from views.windows import WINDOW_COLUMNS

_ALL: Final = Request()


@dataclass(frozen=True)
class Done:
    """What was done for a source: so many events of `[start, cut)` folded into views, in so many seconds.

    `ahead` is what was expected before.
    """

    source: str
    kind: Kind
    start: Position
    cut: Position
    views: tuple[str, ...]
    events: int
    seconds: float
    ahead: Work


@dataclass(frozen=True)
class Recomputed:
    """What is live now, what was done for it, the gaps that its numbers lack, and how they differ from those before.

    Nothing done: nothing was published.
    """

    publication: Publication
    done: tuple[Done, ...]
    gaps: tuple[Gap, ...] = field(default=())
    audits: tuple[Audit, ...] = field(default=())


def run(batch: Run, working_tree: Callable[[], Project], request: Request = _ALL) -> Recomputed:
    """Recompute views of the published release and publish them; with `adopt`, of the working tree as the next release.

    Waits for another run that holds the lock. Raises TandemError, also if a source that would be adopted does not read what is
    published of it; auditing.Unexplained if what was served is not what was found, unless the request says to publish anyway.
    """
    tables = batch.tables
    first.live(tables, working_tree, by=batch.by, at=batch.now())
    batch.hold("views")
    live = first.live(tables, working_tree, by=batch.by, at=batch.now())
    release = releases.load(tables, live.release)
    if request.adopt:
        adopted = working_tree()
        refuse_breaks(project.load_files(release.files), adopted)
        release = releases.adopt(tables, adopted, by=batch.by, at=batch.now())
    definitions = project.load_files(release.files)
    found = [gap for source in definitions.sources for gap in gaps.gaps(tables, source)]
    gaps.refuse_unaccepted(found, (*request.accepted, *(gap.name for gap in found if gap.name in live.gaps)))
    if release.number != live.release:
        batch.hold("archive")
        for source in definitions.sources.values():
            decode_archived(batch, release, source)
    # Unique without asking any table for the last one, later ones larger, and exact in every reader's double (53 bits).
    version = (int(batch.now().timestamp() * 1000) << 10) | secrets.randbits(10)
    work = _Work(batch, live, release, definitions, version, request, tuple(found))
    steps = planning.steps(definitions, live if release.number == live.release else None, request)
    scratch.clear(tables)
    try:
        built = [one for one in (_build(work, step) for step in steps) if one is not None]
    finally:
        scratch.clear(tables)
    if not built:
        return Recomputed(live, (), tuple(found))
    compared = tuple(audit for one in built for audit in one.audits)
    audits.record(batch.tables, compared)
    if not request.publish_anyway:
        auditing.refuse_unexplained(compared)
    _commit(work, built)
    published = publications.publish(tables, partial(_candidate, work, built, tuple(gap.name for gap in found)))
    assert published is not None  # the candidate is never None
    return Recomputed(published, tuple(one.done for one in built), tuple(found), compared)


@dataclass(frozen=True)
class _Work:
    """What is being recomputed: the release, which is live or will be, under one new batch version."""

    batch: Run
    live: Publication
    release: Release
    definitions: Project
    version: int
    request: Request
    gaps: tuple[Gap, ...]

    @property
    def scratch(self) -> Place:
        """Where tasks leave files for each other."""
        return scratch.scratch(self.batch.tables)


@dataclass(frozen=True)
class _Built:
    """What was built of a source; `kept` are the parts of each view that stay before the new one."""

    done: Done
    kept: Mapping[str, tuple[Part, ...]]
    views: BatchViews
    audits: tuple[Audit, ...]


def _build(work: _Work, step: Step) -> _Built | None:
    """Do a step; None if there is nothing new in the log."""
    batch, source = work.batch, work.definitions.sources[step.source]
    cut = _cut(work, source) if step.cut is None else step.cut
    if step.kind == "incremental":
        if cut == step.start:
            batch.say(f"{source.name}: nothing was archived since the published cut")
            return None
        try:
            return _fold(work, step, cut)
        except Displaced as displaced:
            batch.say(f"{source.name}: {displaced}; everything below the cut is folded")
            step = replace(step, kind="full", start=LOG_START, views=dict.fromkeys(step.views, ()))
    return _fold(work, step, cut)


def _cut(work: _Work, source: Source) -> Position:
    end = archive.end(work.batch.tables, source.name, work.release.sources[source.name])
    if not end.offsets:
        work.batch.say(f"{source.name}: nothing is archived yet, so there is nothing to fold; `tandem archive` comes first")
    return take_cut(work.batch, work.release.number, source.name, end)


def _fold(work: _Work, step: Step, cut: Position) -> _Built:
    """Build the step's views up to the cut."""
    batch, source, began = work.batch, work.definitions.sources[step.source], time.monotonic()
    new = distance(step.start, cut)
    merged: dict[str, tuple[Part, ...]] = dict.fromkeys(step.views, ())
    if step.kind == "incremental":
        merged = {name: planning.merged(work.definitions.views[name], parts, new) for name, parts in step.views.items()}
    ahead = estimating.work(
        batch.tables,
        source,
        work.release.sources[source.name],
        kind=estimating.RAW if work.request.raw else step.kind,
        views=len(merged),
        start=step.start,
        end=cut,
        windows=work.request.windows,
    )
    batch.say(f"{source.name}: {step.kind}, from {step.start} to {cut}: {ahead.words}")
    against = served(batch.tables, work.live, work.release, step, cut=cut, gaps=work.gaps)
    below = Below(
        work.release,
        source,
        step.start,
        cut,
        merged,
        work.version,
        work.request.raw,
        work.request.windows,
        against if isinstance(against, Served) else None,
    )
    views = build(batch, below, work.scratch)
    kept = {name: parts[: len(parts) - len(merged[name])] for name, parts in step.views.items()}
    done = Done(source.name, step.kind, step.start, cut, tuple(merged), views.counts.events, time.monotonic() - began, ahead)
    rates.record(batch.tables, ahead.took(done.seconds, at=batch.now()))
    return _Built(done, kept, views, tuple(_audited(work, done, against, views)))


def _audited(work: _Work, done: Done, against: Served | Obstacle, views: BatchViews) -> Iterator[Audit]:
    """The audits of what was built."""
    chosen, live = {name: work.definitions.views[name] for name in done.views}, work.live
    copies = dict.fromkeys(chosen, 0)
    if isinstance(against, Served) and (against.commits or against.end != done.cut):
        before = live.counts.get(done.source, NOTHING)
        below = plus(before, views.counts) if done.kind == "incremental" else views.counts
        beyond = repaired(work.batch.tables, live, work.release.number, done.source, cut=done.cut, below=below)
        found = Counts(
            duplicates=max(0, below.duplicates - before.duplicates), conflicts=max(0, below.conflicts - before.conflicts)
        )
        copies = {name: auditing.told_apart(view, found, beyond=beyond) for name, view in chosen.items()}
    end = against.end if isinstance(against, Served) else done.cut
    like = Audit(work.batch.now(), work.version, live.number, work.release.number, "", "", done.start, end)
    return auditing.audits(chosen, against, views.differences.get(SERVED, {}), copies=copies, like=like)


def _commit(work: _Work, built: Sequence[_Built]) -> None:
    """Make the files part of the views' tables; nothing reads the new version until it is published."""
    tables = work.batch.tables
    files = [file for one in built for file in one.views.files]
    for name in (name for one in built for name in one.kept):
        schema = state_schema(work.definitions.views[name]).append(pa.field(VERSION, pa.int64()))
        address = tables.view(name, work.release.views[name])
        handle = commits.make_table(tables, address, schema, partition_by=VERSION, bounded=WINDOW_COLUMNS)
        commits.add_files(handle, [file.file for file in files if file.view == name])


def _candidate(work: _Work, built: Sequence[_Built], lacking: tuple[str, ...], parent: Publication | None) -> Publication:
    """The next publication. Raises NotPublishable if what the run started from is no longer live."""
    of_release = work.release.number == work.live.release
    publications.refuse_stale(parent, work.live, extends=work.definitions.views if of_release else ())
    assert parent is not None  # else it is stale
    base = (
        parent
        if of_release
        else replace(parent, cuts={}, views={}, counts={}, rejected={}, newest={}, maxima={}, watermarks={}, after_final={})
    )
    cuts, views, counts = dict(base.cuts), dict(base.views), dict(base.counts)
    rejected, newest, maxima = dict(base.rejected), dict(base.newest), dict(base.maxima)
    watermarks, after_final, copies = dict(base.watermarks), dict(base.after_final), dict[str, int]()
    for one in built:
        name, done = one.done.source, one.done
        rows: Counter[str] = Counter()
        for file in one.views.files:
            rows[file.view] += file.file.rows
        for view, kept in one.kept.items():
            part = Part(work.version, rows[view], done.cut, work.request.windows)
            views[view] = BatchView(work.release.views[view], (*kept, part))
        extends = done.kind == "incremental"
        if done.kind != "windows":
            for view in one.kept:
                rejected[view] = add(rejected.get(view, {}) if extends else {}, one.views.rejected[view])
        if not work.request.at_published_cut:
            before = counts.get(name, NOTHING) if extends else NOTHING
            maxima[name] = united([maxima.get(name, {}) if extends else {}, one.views.maxima])
            labels = _labels(work, name, done.cut, maxima[name], parent)
            cuts[name], counts[name] = done.cut, replace(plus(before, one.views.counts), late=labels.late)
            after_final |= labels.after_final
            if labels.watermark is not None:
                watermarks[name] = labels.watermark
            found = repaired(work.batch.tables, parent, work.release.number, name, cut=done.cut, below=counts[name])
            copies |= {name: found} if found is not None else {}
            times = [found for found in (newest.get(name), one.views.newest) if found is not None]
            newest |= {name: max(times)} if times else {}
    return Publication(
        number=0,
        parent=parent.number,
        at=work.batch.now(),
        by=work.batch.by,
        kind="recompute" if of_release else "promote",
        release=work.release.number,
        cuts=cuts,
        views=views,
        counts=counts,
        rejected=rejected,
        newest=newest,
        maxima=maxima,
        watermarks=watermarks,
        after_final=after_final,
        repaired=copies,
        gaps=lacking,
    )


def _labels(work: _Work, source: str, cut: Position, maxima: Maxima, parent: Publication) -> Labels:
    tables, release = work.batch.tables, work.release
    before = release if parent.release == release.number else releases.load(tables, parent.release)
    return labels_below(
        tables,
        parent,
        source,
        cut,
        views={name: release.views[name] for name, view in work.definitions.views.items() if view.source.name == source},
        maxima=maxima,
        idle=work.definitions.sources[source].idle,
        # Another decoder may give the same records other event times.
        same_times=before.sources.get(source) == release.sources[source],
    )
