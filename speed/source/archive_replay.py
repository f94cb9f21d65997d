"""Replay the archive through the speed path, in micro-batches, into a scratch realtime table."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from pyspark.sql import SparkSession

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.counts import NOTHING, Counts, add, plus
from tandem.ledger.log.positions import Position, ranges
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.ledger.realtime_writer import Writer
from tandem.ledger.table_versions import table_versions
from tandem.speed.dedup.siphash import SECRET_BYTES
from tandem.speed.micro_batch.follower_state import FollowerState
from tandem.speed.micro_batch.log_tail import UncommittedLog
from tandem.speed.micro_batch.task import KnownVersions, SmallTable, Task
from tandem.speed.source import record_frames
from tandem.speed.source.counted_at import CountedRange, counted, divided, together
from tandem.speed.source.restore_identities import unseen
from tandem.views.arrow.arrays import to_ipc
from tandem.views.composite.table import looked_up
from tandem.views.source.source import Source
from tandem.views.view import View


@dataclass(frozen=True)
class ReplayedArchive:
    """The number of micro-batches, their counts, and what views rejected by fingerprint and reason."""

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
    identities_mb: int,
    by: str,
    now: Callable[[], datetime],
    schemas: RegistrySchemas | None = None,
) -> ReplayedArchive:
    """Fold the archive from its start to `end` as the speed layer folds the log, and commit to a realtime table under `into`.

    `views` are the source's by name. A micro-batch has about `most` events, and looks up in the published versions of tables, as
    the batch views below the cut did.

    The times of commits, and below them those of archive runs, decide which duplicates lie further apart than the source's dedup
    window. These duplicates count, as they do in the log's tail. Raises what `Tail.extend` raises.
    """
    fingerprints = {name: release.views[name] for name in views}
    ledger = ArchiveLedger(tables, source.name)
    generations, firsts = ledger.generations(), ledger.firsts()
    writer = Writer.claim(into, release.number, source.name, by=by, at=now())
    window = unseen(source, identities_mb)
    tail = UncommittedLog(
        task=Task(release.files, source.name, fingerprints, generations=generations, secret=secrets.token_bytes(SECRET_BYTES)),
        source=source,
        views={fingerprints[name]: view for name, view in views.items()},
        writer=writer,
        # The log has no events before its start.
        live=replace(live, maxima={}, watermarks={}),
        now=now,
        schemas=schemas,
        state=FollowerState(window, end=writer.end, firsts=firsts, epoch=writer.epoch, by=by, idle=source.idle),
        look_up=partial(_versions_below_cuts, tables, live, views),
    )
    batches, counts = 0, NOTHING
    rejected: dict[str, dict[str, int]] = {}
    known, at_once = counted(tables, release, source.name, end, now=now()), max(1, most // (source.max_events_per_record or 1))
    for group in together(divided(known.stretches, firsts, most=at_once), firsts, most=at_once):
        last = group[-1]
        covered = ranges(tail.writer.end, last.end, firsts)
        if not covered.length:  # all that was ever there is lost
            continue
        found = record_frames.of_archive(spark, tables, source, covered)
        tail.now = partial(_time, last)
        caught_up = next((one.caught_up for one in reversed(group) if one.caught_up), tail.state.caught_up)
        tail.state = replace(tail.state, caught_up=caught_up)
        commit = tail.extend(found, last.end, still_there=lambda: None)
        batches, counts = batches + 1, plus(counts, commit.counts)
        rejected |= {name: add(rejected.get(name, {}), reasons) for name, reasons in commit.rejected.items()}
    return ReplayedArchive(batches, counts, rejected)


def _versions_below_cuts(tables: Tables, live: Publication, views: Mapping[str, View]) -> KnownVersions:
    """The versions below the cuts of a publication, in which these views look up."""
    of_tables = {name: each for view in views.values() for name, each in looked_up(view).items()}
    versions = {
        name: table_versions(tables, view, live.views[name], live.cut(view.source.name), ()).versions
        for name, view in of_tables.items()
    }
    return KnownVersions({name: SmallTable(to_ipc(each)) for name, each in versions.items()})


def _time(of: CountedRange) -> datetime:
    return of.at
