"""A history written straight into an archive, in the form of an archive run, and decoded: the log's speed is not measured."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from tandem.batch.archive.decode_runs import decode_archived
from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.files.file_ranges import RECORDS
from tandem.ledger.log.archive_runs import APP_ID, ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.releases import Releases
from tandem.views.source.source import RECORDS_SCHEMA, Source

Values: TypeAlias = Callable[[int, int], pa.ChunkedArray]
"""The values of the events with numbers from the first to below the second, in order."""

START: Final = datetime(2026, 11, 1, tzinfo=UTC)
"""Events are of the day that begins here; records have its end as their timestamp."""
_TOPIC: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_PARTITIONS: Final = 2
_PIECE: Final = 500_000


def write(batch: BatchRun, source: Source, first: int, end: int, values: Values) -> None:
    """Write an archive run of the events with numbers in [first, end), half of them in each of two partitions, and decode it."""
    tables = batch.tables
    ledger = ArchiveLedger(tables, source.name)
    known = ledger.runs()
    start = known[-1].end if known else LOG_START
    each = (end - first) // _PARTITIONS
    to = Position.of({(_TOPIC, number): start.get((_TOPIC, number), 0) + each for number in range(_PARTITIONS)})
    run = ledger.intend(start=start, end=to, by="bench", at=batch.now())
    handle = delta_commits.make_table(tables, tables.archive(source.name), RECORDS_SCHEMA, bounded=RECORDS.names)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(_PARTITIONS):
            offset = start.get((_TOPIC, number), 0)
            for low in range(0, each, _PIECE):
                at, rows = first + number * each + low, min(_PIECE, each - low)
                yield from _records(number, offset + low, values(at, at + rows)).to_batches()

    reader = pa.RecordBatchReader.from_batches(RECORDS_SCHEMA, batches())
    properties = CommitProperties(app_transactions=[Transaction(APP_ID, run.number)], max_commit_retries=0)
    write_deltalake(handle, reader, mode="append", commit_properties=properties)
    ledger.check(run.number, at=batch.now())
    decode_archived(batch, Releases(tables).load(1), source)


def _records(partition: int, offset: int, values: pa.ChunkedArray) -> pa.Table:
    rows = len(values)
    return pa.table(
        [
            pa.repeat(_TOPIC, rows),
            pa.repeat(pa.scalar(partition, pa.int32()), rows),
            pa.array(range(offset, offset + rows), pa.int64()),
            pa.repeat(pa.scalar(START + timedelta(days=1), RECORDS_SCHEMA.field("timestamp").type), rows),
            pa.repeat(pa.scalar(0, pa.int32()), rows),
            pa.nulls(rows, pa.binary()),
            values.cast(pa.binary()),
            pa.nulls(rows, RECORDS_SCHEMA.field("headers").type),
        ],
        RECORDS_SCHEMA,
    )
