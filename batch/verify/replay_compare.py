"""The Kappa law: the log replayed through the speed path, the batch over the archive, and the published answers agree."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tandem.batch.fold.fold_job import Pair
from tandem.batch.fold.lookup_files import write_versions
from tandem.batch.rebuild.inputs import REPLAYED, SERVED, SERVED_AND_REPLAYED, Comparison, EarlierStates, LogRange, ViewTarget
from tandem.batch.rebuild.rebuild import rebuild
from tandem.batch.recompute import audit
from tandem.batch.recompute.late_versions import versions_of
from tandem.batch.runtime.scratch import scratch
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.fetch_checks import Unclosed
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.audits import AuditFigures
from tandem.ledger.publish.label_counts import counted_by_one
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.ledger.realtime.commit_files import paths_by_span
from tandem.ledger.realtime.tiling import chain
from tandem.views.composite.table import looked_up
from tandem.views.source.source import Source
from tandem.views.view import View

_BETWEEN: Final[Mapping[Pair, tuple[str, str]]] = {
    REPLAYED: ("speed", "batch"),
    SERVED: ("published", "batch"),
    SERVED_AND_REPLAYED: ("published", "speed"),
}


@dataclass(frozen=True)
class ReplayComparison:
    """How two of `batch`, `speed` and `published` differ in a measure of a view; the figures call the first one `served`."""

    view: str
    measure: str
    between: tuple[str, str]
    figures: AuditFigures


@dataclass(frozen=True)
class Agreement:
    """What batch counted below the cut, what views rejected by name and reason, and how the three sides differ."""

    counts: Counts
    rejected: Mapping[str, Mapping[str, int]] = field(hash=False)
    compared: tuple[ReplayComparison, ...]


def agreement(
    batch: BatchRun,
    live: Publication,
    release: Release,
    source: Source,
    views: Mapping[str, View],
    *,
    replayed: Tables,
    counted: Counts,
) -> Agreement:
    """Fold the archive below the live cut again, write nothing, and compare with what is published and replayed.

    `views` are the source's by name. `replayed` has a realtime table that reaches the cut; `counted` are the counts of its
    micro-batches. The caller holds the lock of the views' tables. Raises what `rebuild` raises.
    """
    cut = live.cut(source.name)
    realtime = Location.of(batch.tables, batch.tables.realtime(release.number, source.name))
    published = EarlierStates({name: live.views[name].parts for name in views}, realtime, (), cut)
    comparison = Comparison(published, replayed_states(replayed, release.number, source.name, cut))
    targets = {name: ViewTarget(view, live.views[name]) for name, view in views.items()}
    place = scratch(batch.tables)
    tables = {name: of for view in views.values() for name, of in looked_up(view).items()}
    versions = {
        name: versions_of(batch.tables, of, live.views[name].address(batch.tables, name), live.views[name].parts, ())
        for name, of in tables.items()
    }
    log = LogRange(release, source, LOG_START, cut, raw=True, versions=write_versions(place, versions))
    built = rebuild(batch, log, targets, comparison, version=None, scratch=place)
    beyond = counted.events - built.counts.events
    compared = [
        ReplayComparison(
            name,
            one.measure,
            between,
            audit.figures(_archived(view), one, copies=copies),
        )
        for pair, between in _BETWEEN.items()
        for name, view in views.items()
        # The published and the folded states choose the same one of several duplicates.
        for copies in [0 if pair == SERVED else counted_by_one(view, built.counts, beyond=beyond)]
        for one in built.differences[pair][name]
    ]
    return Agreement(built.counts, built.rejected, tuple(compared))


def replayed_states(tables: Tables, release: int, source: str, cut: Position) -> EarlierStates:
    """The commits of a replay's realtime table. Raises Unclosed if they do not tile the log from its start to the cut."""
    paths = paths_by_span(tables, release, source)
    tiled = chain(paths, LOG_START)
    if tiled.end != cut:
        raise Unclosed(f"the replay of source {source!r} ends at {tiled.end}, not at the cut {cut}")
    realtime = Location.of(tables, tables.realtime(release, source))
    return EarlierStates({}, realtime, tuple(paths[span] for span in tiled.commits), cut)


def _archived(view: View) -> View:
    """The view for the cause of a difference: all three sides read the archive, which Kafka does not compact."""
    return replace(view, source=replace(view.source, compacted=False, tombstones=view.source.tombstone_rule))
