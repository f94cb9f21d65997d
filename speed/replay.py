"""The archive through the speed path once more, micro-batch after micro-batch, into a realtime table that nobody serves."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil

from pyspark.sql import SparkSession

from ledger import archive
from ledger.counts import NOTHING, Counts, add, plus
from ledger.positions import Position, ranges
from ledger.publications import Publication
from ledger.realtime import Writer
from ledger.releases import Release
from ledger.tables import Tables
from speed import records
from speed.fold import Task
from speed.seen import unseen
from speed.tail import Tail
from views.ranges import Offsets
from views.source import Source
from views.view import View


@dataclass(frozen=True)
class Replayed:
    """So many micro-batches, what they counted, and what views rejected by fingerprint and reason."""

    batches: int
    counts: Counts
    rejected: Mapping[str, Mapping[str, int]] = field(hash=False)


def replay(
    spark: SparkSession,
    tables: Tables,
    release: Release,
    source: Source,
    *,
    views: Mapping[str, View],
    live: Publication,
    into: Tables,
    end: Position,
    most: int,
    by: str,
    now: Callable[[], datetime],
) -> Replayed:
    """Fold the archive from its start to `end` as the speed layer folds the log, and commit to a realtime table under `into`.

    `views` are the source's by name. A micro-batch has about `most` events. Copies that lie further apart than the source's
    horizon count, as they do in the log's tail. Raises what `Tail.extend` raises.
    """
    fingerprints = {name: release.views[name] for name in views}
    generations, firsts = archive.generations(tables, source.name), archive.firsts(tables, source.name)
    tail = Tail(
        task=Task(release.files, source.name, fingerprints, generations=generations),
        source=source,
        views={fingerprints[name]: view for name, view in views.items()},
        writer=Writer.claim(into, release.number, source.name, by=by, at=now()),
        # Nothing is known of the log before its start.
        live=replace(live, maxima={}, watermarks={}),
        by=by,
        now=now,
        horizon=unseen(source),
        firsts=firsts,
    )
    batches, counts = 0, NOTHING
    rejected: dict[str, dict[str, int]] = {}
    for position in _steps(end, firsts, most=max(1, most // (source.many or 1))):
        found = records.of_archive(spark, tables, source, ranges(tail.writer.end, position, firsts))
        commit = tail.extend(found, position, still_there=lambda: None)
        batches, counts = batches + 1, plus(counts, commit.counts)
        rejected |= {name: add(rejected.get(name, {}), reasons) for name, reasons in commit.rejected.items()}
    return Replayed(batches, counts, rejected)


def _steps(end: Position, firsts: Offsets, *, most: int) -> Iterator[Position]:
    """Positions up to the end, about `most` offsets apart, on which all partitions advance alike, as they did in time."""
    reached = starts = {partition: min(firsts.get(partition, 0), offset) for partition, offset in end.items()}
    number = ceil(sum(offset - starts[partition] for partition, offset in end.items()) / most)
    for step in range(1, number + 1):
        position = {p: starts[p] + (offset - starts[p]) * step // number for p, offset in end.items()}
        if position != reached:  # several partitions of a few records each may have to wait for the next step together
            reached = position
            yield Position.of(position)
