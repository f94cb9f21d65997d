"""Take the cut of a recompute: at a boundary that the speed layer committed, or over a bridge if it is absent."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tandem.batch.recompute.plan import RecomputeStep
from tandem.batch.runtime.session import BatchRun
from tandem.infra.logs.telling import bound
from tandem.ledger import cut_decision
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.releases import Release
from tandem.ledger.publish.standing import cut_of
from tandem.ledger.realtime.commit_files import spans_of
from tandem.ledger.realtime.tiling import chain
from tandem.views.composite.table import looked_up
from tandem.views.project import project

# A speed layer that is alive commits several times a second; one without a commit for this long counts as absent.
_STILL_S: Final = 3.0
_PATIENCE_S: Final = 30.0
_EVERY_S: Final = 0.1


def with_cuts(
    batch: BatchRun, release: Release, steps: Iterable[RecomputeStep], *, sleep: Callable[[float], None] = time.sleep
) -> Iterator[RecomputeStep]:
    """The steps, each with a cut: the given one, else a new one at the archive's end.

    A new cut is taken when its step begins: no source's answers wait behind a bridge while another source is folded.
    """
    taken, views = dict[str, Position](), project.load_files(release.files).views
    for step in steps:
        if step.cut is not None:
            yield step
            continue
        sources = {of.source.name for name in step.views for of in looked_up(views[name]).values()}
        tables = {name: taken[name] if name in taken else cut_of(batch.tables, release.number, name) for name in sources}
        with bound(source=step.source, views=list(step.views), release=release.number):
            end = ArchiveLedger(batch.tables, step.source).end(release.sources[step.source])
            if not end.offsets:
                batch.say(f"{step.source}: nothing is archived yet; run `tandem archive` first")
            cut = take_cut(batch, release.number, step.source, end, tables=tables, sleep=sleep)
        taken[step.source] = cut
        yield replace(step, cut=cut)


def take_cut(
    batch: BatchRun,
    release: int,
    source: str,
    archive_end: Position,
    *,
    tables: Mapping[str, Position] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Position:
    """Reserve the cut: then the run may fold everything below it.

    Waits at most 30 s for a speed layer that is advancing to the archive's end. If it is absent or too far behind, the run
    commits a bridge, and the speed layer continues from the cut. The cut passes no commit that has looked up in versions beyond
    the cuts of these `tables`, by source.
    """
    waited = still = 0.0
    reached = _reached(batch, release, source)
    while reached is not None and not archive_end.at_or_below(reached) and still < _STILL_S and waited < _PATIENCE_S:
        if not waited:
            batch.say(f"{source}: waiting for the speed layer to reach the archive's end, at most {_PATIENCE_S:.0f} s")
        sleep(_EVERY_S)
        waited += _EVERY_S
        now = _reached(batch, release, source)
        still = still + _EVERY_S if now == reached else 0.0
        reached = now
    at, by = batch.now(), batch.by
    return cut_decision.take(batch.tables, release, source, archive_end=archive_end, patience=0, by=by, at=at, looked_up=tables)


def _reached(batch: BatchRun, release: int, source: str) -> Position | None:
    """Where the release's chain ends; None if a speed layer has never claimed it."""
    spans = spans_of(batch.tables, release, source)
    if not any(span.kind == "epoch" for span in spans):
        return None
    return chain(spans, cut_of(batch.tables, release, source), across_bridges=True).end
