"""One Spark task of an archive run: it writes the records that Spark reads as a file of the archive, and decodes them meanwhile.

Each record is read from the log once. No file belongs to a table before the driver has committed it, so a task that is repeated
or killed leaves litter and no record.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

import pyarrow as pa

from tandem.batch.archive import decode
from tandem.batch.archive.copied import Copied
from tandem.batch.archive.decode import Decoding
from tandem.batch.runtime.parquet_writer import GROUP_ROWS, TableFile
from tandem.infra.spark.header_texts import with_headers
from tandem.ledger.files.file_ranges import RECORDS
from tandem.views.source.source import RECORDS_SCHEMA, record_columns

SCHEMA: Final = "copied binary"
"""The schema of a task's rows in Spark: one pickled `Copied` each."""
BOUNDED: Final = (*RECORDS.names, "timestamp")
"""The columns of the archive whose bounds every file has in the table's log."""

# A reader reads a row group as a whole: this bounds its memory, also for large records.
_GROUP_BYTES: Final = 32 << 20


def copy_records(work: Decoding, batches: Iterable[pa.RecordBatch], *, typed: bool) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: record batches with the columns of RECORDS_SCHEMA, headers as texts, in; at most one row out.

    Writes a file to `work.archive` and, if `typed`, one to `work.events` and one to `work.quarantine`, each only if it has rows.
    """
    with ExitStack() as stack:
        raw = stack.enter_context(TableFile(work.archive, RECORDS_SCHEMA, BOUNDED, in_log_order=True))
        typing = stack.enter_context(decode.opened(work)) if typed else None
        for piece in _pieces(map(with_headers, batches)):
            raw.write(piece)
            if typing is not None:
                needed = piece.select(record_columns(typing.source))
                for start in range(0, piece.num_rows, typing.most):
                    typing.write(needed.slice(start, typing.most))
    if raw.written is not None:
        copied = Copied((raw.written,), None if typing is None else typing.decoded)
        yield pa.RecordBatch.from_pydict({"copied": pa.array([pickle.dumps(copied)], pa.binary())})


def total(rows: pa.Table, *, typed: bool) -> Copied:
    """What all tasks copied, from the rows that they returned."""
    # Only this run's own tasks create these rows, as in any Spark job in Python.
    done: Sequence[Copied] = [pickle.loads(row) for row in rows["copied"].to_pylist()]  # noqa: S301
    decoded = [one.decoded for one in done if one.decoded is not None]
    return Copied(tuple(file for one in done for file in one.files), decode.total(decoded) if typed else None)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The records in tables that are a row group each."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if held and (
            sum(one.num_rows for one in held) + batch.num_rows > GROUP_ROWS
            or sum(one.nbytes for one in held) + batch.nbytes > _GROUP_BYTES
        ):
            yield pa.Table.from_batches(held)
            held = []
        if batch.num_rows:
            held.append(batch)
    if held:
        yield pa.Table.from_batches(held)
