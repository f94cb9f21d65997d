"""Decode a part of the archive in tasks, into files of an events table and of a quarantine table.

The files belong to no table before a commit: `archive` commits them; a recompute from raw records only reads them, as scratch.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from batch.runtime import spark_jobs
from batch.runtime.file_ranges import EVENTS, RECORDS, FileRange
from batch.runtime.parquet_writer import GROUP_ROWS, TableFile, Written
from batch.runtime.scan import scan
from batch.runtime.splits import Slice
from ledger.delta.location import Location
from views.kernel import kernel
from views.project import project
from views.source.log_order import further
from views.source.source import REJECTS_SCHEMA, events_schema, record_columns

_APPEND_TIME: Final = "_append_time"


@dataclass(frozen=True)
class Decoding:
    """What a task needs: the release's files, the name of the source, and the locations of records, events and rejects."""

    definitions: Mapping[str, bytes] = field(hash=False)
    source: str
    archive: Location
    events: Location
    quarantine: Location


@dataclass(frozen=True)
class Decoded:
    """What became of some records: `events` and `rejects` are files, `quarantined` counts the rejects by reason.

    `further` are the events that are not the first of their record, `others` the records of other sources.
    """

    records: int
    further: int
    events: tuple[Written, ...]
    rejects: tuple[Written, ...]
    quarantined: Mapping[str, int] = field(hash=False)
    others: int = 0

    @property
    def event_rows(self) -> int:
        """How many events the records became."""
        return sum(file.rows for file in self.events)

    @property
    def newest(self) -> datetime | None:
        """The append time of the newest event."""
        return max((file.bounds[_APPEND_TIME][1] for file in self.events), default=None)

    def event_ranges(self) -> list[FileRange]:
        """Where in the log the rows of each events file were."""
        return [_span(file) for file in self.events]


def decode(session: SparkSession, work: Decoding, slices: Sequence[Slice]) -> Decoded:
    """Decode the slices of the archive, one task each. Raises jobs.TaskFailed."""
    done = spark_jobs.each(session, partial(_decode_slice, work), slices)
    return Decoded(
        records=sum(one.records for one in done),
        further=sum(one.further for one in done),
        events=tuple(file for one in done for file in one.events),
        rejects=tuple(file for one in done for file in one.rejects),
        quarantined=sum((Counter(one.quarantined) for one in done), Counter()),
        others=sum(one.others for one in done),
    )


def _decode_slice(work: Decoding, part: Slice) -> Decoded:
    source = project.load_files(work.definitions).sources[work.source]
    events = TableFile(work.events, events_schema(source), tuple(dict.fromkeys((*EVENTS.names, _APPEND_TIME, source.event_time))))
    rejects = TableFile(work.quarantine, REJECTS_SCHEMA, RECORDS.names)
    records, beside, others, reasons = 0, 0, 0, Counter[str]()
    with events, rejects:
        most = max(1, GROUP_ROWS // (source.max_events_per_record or 1))
        for rows in scan(work.archive, part, RECORDS, record_columns(source), rows=most):
            decoded = kernel.decode(source, rows)
            events.write(decoded.events)
            rejects.write(decoded.rejects)
            records += rows.num_rows
            beside += further(decoded.events)
            others += decoded.others
            reasons.update(decoded.rejects["reason"].to_pylist())
    return Decoded(records, beside, _files(events), _files(rejects), dict(reasons), others)


def _files(file: TableFile) -> tuple[Written, ...]:
    return () if file.written is None else (file.written,)


def _span(file: Written) -> FileRange:
    low, high = file.bounds[EVENTS.offset]
    topics, partitions = file.bounds.get(EVENTS.topic), file.bounds.get(EVENTS.partition)
    return FileRange(file.path, file.rows, topics, partitions, (low, high + 1), file.size)
