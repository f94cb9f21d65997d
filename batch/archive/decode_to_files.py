"""Decode records in tasks, into files of an events table and of a quarantine table.

The task that copies records decodes them in the same pass (copy_task.py); `decode` reads what the archive has. The files belong
to no table before a commit: `archive` commits them; a recompute from raw records only reads them, as scratch.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from tandem.batch.runtime import spark_jobs
from tandem.batch.runtime.parquet_writer import GROUP_ROWS, TableFile, Written
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, FileRange
from tandem.ledger.files.identity_hashes import IdentityHash
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.decode.schema_ids import missing_schemas
from tandem.views.instant import APPEND_TIME
from tandem.views.kernel import kernel
from tandem.views.project import project
from tandem.views.source.formats.schema_registry import SchemaKey
from tandem.views.source.log_order import NONE_REJECTED, RejectedEvents, event_rejects, further
from tandem.views.source.source import Source, events_schema, record_columns, rejects_schema


@dataclass(frozen=True)
class Decoding:
    """What a task needs: the release's files, the name of the source, and the locations of records, events and rejects."""

    definitions: Mapping[str, bytes] = field(hash=False)
    source: str
    archive: Location
    events: Location
    quarantine: Location

    def with_schemas(self, schemas: RegistrySchemas) -> "Decoding":
        """The same with the schemas of registries that are known."""
        return replace(self, definitions=schemas.attach(self.definitions))


@dataclass(frozen=True)
class DecodeResult:
    """The outcome of some records: `events` and `rejects` are files, `quarantined` counts the rejects by reason.

    `further` are the events that are not the first of their record, `alone` the rejects that are an event of a list, `others`
    the records of other sources, `skipped` the tombstones that the source skips. `missing` are schemas that the records name and
    the tasks did not have; then nothing of the outcome counts.
    """

    records: int
    further: int
    events: tuple[Written, ...]
    rejects: tuple[Written, ...]
    quarantined: Mapping[str, int] = field(hash=False)
    others: int = 0
    alone: RejectedEvents = NONE_REJECTED
    skipped: int = 0
    missing: frozenset[SchemaKey] = frozenset()

    @property
    def event_rows(self) -> int:
        """The number of events of the records."""
        return sum(file.rows for file in self.events)

    @property
    def newest(self) -> datetime | None:
        """The append time of the newest event."""
        return max((file.bounds[APPEND_TIME][1] for file in self.events), default=None)

    def event_ranges(self) -> list[FileRange]:
        """The ranges of the log that the rows of each events file are from."""
        return [_span(file) for file in self.events]


def decode(session: SparkSession, work: Decoding, slices: Sequence[Slice], schemas: RegistrySchemas) -> DecodeResult:
    """Decode the slices of the archive, one task each. New schemas are fetched, and the tasks run again.

    Raises spark_jobs.TaskFailed, RegistryAway.
    """
    result = total(spark_jobs.each(session, partial(_decode_slice, work.with_schemas(schemas)), slices))
    if result.missing:
        schemas.fetch(sorted(result.missing), source=work.source)
        result = total(spark_jobs.each(session, partial(_decode_slice, work.with_schemas(schemas)), slices))
    return result


def bounded(source: Source) -> tuple[str, ...]:
    """The columns of an events table whose bounds every file has in the table's log."""
    return tuple(dict.fromkeys((*EVENTS.names, APPEND_TIME, source.time_column)))


@dataclass
class DecodedFiles:
    """A file of events and a file of rejects, into which records of the log are decoded piece by piece."""

    source: Source
    events: TableFile
    rejects: TableFile
    hash: IdentityHash | None = None
    records: int = 0
    further: int = 0
    others: int = 0
    alone: RejectedEvents = NONE_REJECTED
    skipped: int = 0
    missing: set[SchemaKey] = field(default_factory=set)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def most(self) -> int:
        """The number of records to decode at once, so that their events are about one row group."""
        return max(1, GROUP_ROWS // (self.source.max_events_per_record or 1))

    def write(self, records: pa.Table) -> None:
        """Decode records with record_columns(source), at most `most`, which follow the earlier ones in the log."""
        decoded = kernel.decode(self.source, records)
        self.events.write(decoded.events if self.hash is None else self.hash.added(decoded.events))
        self.rejects.write(decoded.rejects)
        self.records += records.num_rows
        self.further += further(decoded.events)
        self.alone += event_rejects(decoded.rejects)
        self.others += decoded.others
        self.skipped += decoded.skipped
        self.reasons.update(decoded.rejects["reason"].to_pylist())
        self.missing.update(missing_schemas(self.source, records))

    @property
    def decoded(self) -> DecodeResult:
        """The outcome of the records, once the files are closed."""
        return DecodeResult(
            self.records,
            self.further,
            _files(self.events),
            _files(self.rejects),
            dict(self.reasons),
            self.others,
            self.alone,
            self.skipped,
            frozenset(self.missing),
        )


@contextmanager
def opened(work: Decoding) -> Iterator[DecodedFiles]:
    """The files of one task, open for its records."""
    source = project.load_files(work.definitions).sources[work.source]
    found = IdentityHash.of_source(source)
    beside = () if found is None else (found.field,)
    events = TableFile(work.events, events_schema(source), bounded(source), beside=beside, in_log_order=True)
    rejects = TableFile(work.quarantine, rejects_schema(source), RECORDS.names, in_log_order=True)
    with events, rejects:
        yield DecodedFiles(source, events, rejects, found)


def total(done: Sequence[DecodeResult]) -> DecodeResult:
    """The outcome of the records of all tasks."""
    return DecodeResult(
        records=sum(one.records for one in done),
        further=sum(one.further for one in done),
        events=tuple(file for one in done for file in one.events),
        rejects=tuple(file for one in done for file in one.rejects),
        quarantined=sum((Counter(one.quarantined) for one in done), Counter()),
        others=sum(one.others for one in done),
        skipped=sum(part.skipped for part in done),
        alone=sum((one.alone for one in done), NONE_REJECTED),
        missing=frozenset(key for part in done for key in part.missing),
    )


def _decode_slice(work: Decoding, part: Slice) -> DecodeResult:
    with opened(work) as files:
        for rows in scan(work.archive, part, RECORDS, record_columns(files.source), rows=files.most):
            files.write(rows)
    return files.decoded


def _files(file: TableFile) -> tuple[Written, ...]:
    return () if file.written is None else (file.written,)


def _span(file: Written) -> FileRange:
    low, high = file.bounds[EVENTS.offset]
    topics, partitions = file.bounds.get(EVENTS.topic), file.bounds.get(EVENTS.partition)
    return FileRange(file.path, file.rows, topics, partitions, (low, high + 1), file.size)
