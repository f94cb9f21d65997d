"""One Spark task of an adoption: it writes rows of a table as records of one partition, from its end on."""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from tandem.batch.adopt.record_times import RecordTimes
from tandem.batch.archive.copy_task import BOUNDED, row_groups
from tandem.batch.runtime.parquet_writer import TableFile, Written
from tandem.ledger.delta.location import Location
from tandem.ledger.log.adoptions import ROWS
from tandem.views.source.source import RECORDS_SCHEMA, TABLE_ROW
from tandem.views.start import PLACED

HEADER: Final = "adopted-from"
"""The header with the table's version and the file of a row."""
SCHEMA: Final = "files binary"
"""The schema of a task's rows in Spark: the pickled files that it has written."""
_FILE_ROWS: Final = 1 << 20


@dataclass(frozen=True)
class RowTask:
    """What a task needs: the place of the archive, the table's version, the end of each partition, and how to read the times."""

    archive: Location
    version: str
    ends: Mapping[int, int] = field(hash=False)
    times: RecordTimes


def write_rows(task: RowTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: columns `value` and `file` in; at most one row out, the pickled files."""
    context = TaskContext.get()
    assert context is not None
    yield from write_partition(task, context.partitionId(), batches)


def write_partition(task: RowTask, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows as records of this partition, in files of about a million."""
    files, at = list[Written](), task.ends.get(partition, 0)
    groups = row_groups(batches)
    group = next(groups, None)
    while group is not None:
        end = at + _FILE_ROWS
        with TableFile(task.archive, RECORDS_SCHEMA, BOUNDED, in_log_order=True) as file:
            while group is not None and at < end:
                file.write(to_records(task, partition, at, group))
                at += group.num_rows
                group = next(groups, None)
        if file.written is not None:
            files.append(file.written)
    if files:
        yield _outcome(files)


def write_at_places(task: RowTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows as records at their own partitions and offsets, in whose order they come: a file has one partition."""
    files = list[Written]()
    groups = (piece for group in row_groups(batches) for piece in _partition_pieces(group))
    group = next(groups, None)
    while group is not None:
        partition, rows = group["partition"][0], 0
        with TableFile(task.archive, RECORDS_SCHEMA, BOUNDED, in_log_order=True) as file:
            while group is not None and group["partition"][0] == partition and rows < _FILE_ROWS:
                file.write(_records(task, PLACED, group["partition"], group["offset"], group))
                rows += group.num_rows
                group = next(groups, None)
        if file.written is not None:
            files.append(file.written)
    if files:
        yield _outcome(files)


def _partition_pieces(rows: pa.Table) -> Iterator[pa.Table]:
    start = 0
    for end in pc.run_end_encode(rows["partition"].combine_chunks()).run_ends.to_pylist():
        yield rows.slice(start, end - start)
        start = end


def _outcome(files: list[Written]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"files": pa.array([pickle.dumps(tuple(files))], pa.binary())})


def all_files(rows: pa.Table) -> tuple[Written, ...]:
    """The files of all tasks, from the rows that they returned."""
    # Only this run's own tasks create these rows, as in any Spark job in Python.
    return tuple(file for row in rows["files"].to_pylist() for file in pickle.loads(row))  # noqa: S301


def to_records(task: RowTask, partition: int, at: int, rows: pa.Table) -> pa.Table:
    """Rows of a task's table as records of this partition, from offset `at` on."""
    number = rows.num_rows
    partitions = pa.repeat(pa.scalar(partition, pa.int32()), number)
    return _records(task, ROWS, partitions, pa.array(range(at, at + number), pa.int64()), rows)


def _records(task: RowTask, topic: str, partitions: pa.Array, offsets: pa.Array, rows: pa.Table) -> pa.Table:
    number = rows.num_rows
    file = pc.cast(rows["file"].combine_chunks(), pa.string())
    suffix = pa.scalar(f" version {task.version}" if task.version else "")
    names = pa.repeat(pa.scalar(HEADER), number)
    header = pa.StructArray.from_arrays(
        [names, pc.binary_join_element_wise(file, suffix, "").cast(pa.binary())], fields=list(_HEADER_FIELDS)
    )
    columns = [
        pa.repeat(pa.scalar(topic), number),
        partitions,
        offsets,
        task.times.column(rows["value"]),
        pa.repeat(pa.scalar(TABLE_ROW, pa.int32()), number),
        pa.nulls(number, pa.binary()),
        rows["value"].cast(pa.binary()),
        pa.ListArray.from_arrays(pa.array(range(number + 1), pa.int32()), header).cast(RECORDS_SCHEMA.field("headers").type),
    ]
    return pa.Table.from_arrays(columns, schema=RECORDS_SCHEMA)


_HEADER_FIELDS: Final = (pa.field("key", pa.string()), pa.field("value", pa.binary()))
