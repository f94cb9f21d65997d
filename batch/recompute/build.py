"""Build the files of one batch version of a release, step by step. Nothing reads them before a publication or record names it."""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from batch.fold.fold import VERSION
from batch.rebuild.account import BatchViews
from batch.rebuild.inputs import SERVED, RebuildJob, Served
from batch.rebuild.rebuild import Displaced, rebuild
from batch.recompute import audit, estimate, plan
from batch.recompute.cut import take_cut
from batch.recompute.estimate import Expected
from batch.recompute.plan import Kind, Request, Step
from batch.recompute.served_state import served
from batch.runtime import delta_commits, scratch
from batch.runtime.session import BatchRun
from infra.logs.telling import bound
from ledger.delta.location import Location
from ledger.log import archive
from ledger.log.counts import NOTHING, Counts, plus
from ledger.log.gaps import Gap
from ledger.log.positions import LOG_START, Position, distance
from ledger.publish import rates
from ledger.publish.audits import Audit, Obstacle
from ledger.publish.batch_parts import Part
from ledger.publish.publications import Publication
from ledger.publish.releases import Release
from ledger.publish.repaired import repaired
from views.fingerprint.additive import same_events
from views.project.project import Project
from views.view import state_schema
from views.windows import WINDOW_COLUMNS


@dataclass(frozen=True)
class Work:
    """What to build: one new batch version of a release, whose newest state is `base`.

    `audited`: the release is live, and the results are compared with what was served.
    """

    batch: BatchRun
    base: Publication
    release: Release
    definitions: Project
    request: Request
    gaps: tuple[Gap, ...]
    audited: bool = False
    version: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", _new_version(self.batch))

    @property
    def scratch(self) -> Location:
        """The location of files that tasks leave for each other."""
        return scratch.scratch(self.batch.tables)


@dataclass(frozen=True)
class Done:
    """What a step did: `events` of `[start, cut)` folded into views in `seconds`.

    `ahead` is the estimate before the run, `written` the bytes of view data.
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


@dataclass(frozen=True)
class Built:
    """What was built for a source; `kept` are the parts of each view that stay before the new part."""

    done: Done
    kept: Mapping[str, tuple[Part, ...]]
    views: BatchViews
    audits: tuple[Audit, ...]


def _new_version(batch: BatchRun) -> int:
    """A batch version: unique without a table of numbers, larger for later runs, exact in a double (53 bits)."""
    return (int(batch.now().timestamp() * 1000) << 10) | secrets.randbits(10)


def build_all(work: Work, steps: Sequence[Step]) -> list[Built]:
    """Do the steps that have something new in the log. Files join no table before `commit`. Raises TandemError."""
    scratch.clear(work.batch.tables)
    try:
        return [one for one in (_build(work, step) for step in steps) if one is not None]
    finally:
        scratch.clear(work.batch.tables)


def _build(work: Work, step: Step) -> Built | None:
    """Do a step; None if the log has nothing new."""
    with bound(source=step.source, views=list(step.views), release=work.release.number):
        cut = _cut(work, step.source) if step.cut is None else step.cut
        if step.kind != "incremental":
            return _rebuilt(work, step, cut)
        if cut == step.start:
            work.batch.say(f"{step.source}: nothing archived since the published cut")
            return None
        try:
            return _rebuilt(work, step, cut)
        except Displaced as displaced:
            work.batch.say(f"{step.source}: {displaced}; folding all events below the cut")
            whole = replace(step, kind="full", start=LOG_START, views=dict.fromkeys(step.views, ()))
            return _rebuilt(work, whole, cut)


def _cut(work: Work, source: str) -> Position:
    """Take a new cut at the archive's end, or report that the archive is empty."""
    end = archive.end(work.batch.tables, source, work.release.sources[source])
    if not end.offsets:
        work.batch.say(f"{source}: nothing is archived yet; run `tandem archive` first")
    return take_cut(work.batch, work.release.number, source, end)


def _rebuilt(work: Work, step: Step, cut: Position) -> Built:
    """Rebuild the step's views up to the cut, then audit them."""
    began = time.monotonic()
    merged = _merged(work, step, cut)
    ahead = _expected(work, step, cut, views=len(merged))
    against = served(work.batch.tables, work.base, step, cut=cut, gaps=work.gaps) if work.audited else None
    views = rebuild(work.batch, _job(work, step, cut, merged, against), work.scratch)
    if whole := sorted(name for name in step.gained if not _extends(work, step, views, name)):
        work.batch.say(f"{step.source}: other events count for {', '.join(whole)} than before; folding all measures")
        return _rebuilt(work, replace(step, gained={}), cut)
    written = sum(file.file.size for file in views.files)
    seconds = time.monotonic() - began
    done = Done(step.source, step.kind, step.start, cut, tuple(merged), views.counts.events, seconds, ahead, written)
    rates.record(work.batch.tables, ahead.took(seconds, at=work.batch.now()))
    kept = {name: parts[: len(parts) - len(merged[name])] for name, parts in step.views.items()}
    return Built(done, kept, views, () if against is None else tuple(_audited(work, done, against, views)))


def _merged(work: Work, step: Step, cut: Position) -> dict[str, tuple[Part, ...]]:
    """The parts of each view that are merged with what is folded: none but for an incremental step."""
    if step.kind != "incremental":
        return dict.fromkeys(step.views, ())
    new = distance(step.start, cut)
    return {name: plan.merged(work.definitions.views[name], parts, new) for name, parts in step.views.items()}


def _expected(work: Work, step: Step, cut: Position, *, views: int) -> Expected:
    """Report what the step is about to read."""
    batch = work.batch
    ahead = estimate.expected(
        batch.tables,
        work.definitions.sources[step.source],
        work.release.sources[step.source],
        kind=estimate.RAW if work.request.raw else step.kind,
        views=views,
        start=step.start,
        end=cut,
        windows=work.request.windows,
    )
    batch.say(f"{step.source}: {step.kind}, from {step.start} to {cut}: {ahead.words}")
    for name, gained in step.gained.items():
        batch.say(f"{name}: folding only the new measures ({', '.join(gained.measures)}); the others are published")
    return ahead


def _job(
    work: Work, step: Step, cut: Position, merged: Mapping[str, tuple[Part, ...]], against: Served | Obstacle | None
) -> RebuildJob:
    return RebuildJob(
        work.release,
        work.definitions.sources[step.source],
        step.start,
        cut,
        merged,
        work.version,
        work.request.raw,
        work.request.windows,
        against if isinstance(against, Served) else None,
        gained=step.gained,
        live=work.base.views,
    )


def _extends(work: Work, step: Step, views: BatchViews, name: str) -> bool:
    """Whether the new measures of a view count the same events as its other measures (views.fingerprint.additive)."""
    same = same_events(step.gained[name].rejected, views.rejected[name])
    return same and views.counts.events == work.base.counts[step.source].events and name not in views.unlike


def _audited(work: Work, done: Done, against: Served | Obstacle, views: BatchViews) -> Iterator[Audit]:
    """The audits of the built views."""
    chosen, base = {name: work.definitions.views[name] for name in done.views}, work.base
    copies = dict.fromkeys(chosen, 0)
    if isinstance(against, Served) and (against.commits or against.end != done.cut):
        before = base.counts.get(done.source, NOTHING)
        below = plus(before, views.counts) if done.kind == "incremental" else views.counts
        beyond = repaired(work.batch.tables, base, work.release.number, done.source, cut=done.cut, below=below)
        found = Counts(
            duplicates=max(0, below.duplicates - before.duplicates), conflicts=max(0, below.conflicts - before.conflicts)
        )
        copies = {name: audit.told_apart(view, found, beyond=beyond) for name, view in chosen.items()}
    end = against.end if isinstance(against, Served) else done.cut
    like = Audit(work.batch.now(), work.version, base.number, work.release.number, "", "", done.start, end)
    return audit.audits(chosen, against, views.differences.get(SERVED, {}), copies=copies, like=like)


def commit(work: Work, built: Sequence[Built]) -> None:
    """Add the files to the views' tables. Readers ignore the new version before it is published."""
    tables = work.batch.tables
    files = [file for one in built for file in one.views.files]
    for name in (name for one in built for name in one.kept):
        schema = state_schema(work.definitions.views[name]).append(pa.field(VERSION, pa.int64()))
        address = work.base.views[name].address(tables, name)
        handle = delta_commits.make_table(tables, address, schema, partition_by=VERSION, bounded=WINDOW_COLUMNS)
        delta_commits.add_files(handle, [file.file for file in files if file.view == name])
