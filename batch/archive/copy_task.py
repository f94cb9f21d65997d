"""One Spark task of an archive run: it writes the records that Spark reads as a file of the archive, and decodes them meanwhile.

Each record is read from the log once. No file belongs to a table before the driver has committed it, so a task that is repeated
or killed leaves litter and no record.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tandem.batch.archive import decode_to_files
from tandem.batch.archive.decode_to_files import DecodeResult, Decoding
from tandem.batch.runtime.parquet_writer import GROUP_ROWS, TableFile, Written
from tandem.infra.spark.header_texts import with_headers
from tandem.ledger.files.file_ranges import RECORDS
from tandem.ledger.log.fetch_checks import named
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Interval, Partition, Ranges
from tandem.views.source.source import RECORDS_SCHEMA, record_columns


class CopyIncomplete(TandemError, code="archive-copy-torn"):
    """The files of a run are not the planned part of the log, each record once."""


@dataclass(frozen=True)
class Copied:
    """The archive's files of one run, each with records of one partition in order, and the files of their decoded events.

    `decoded` is None if the records were copied only.
    """

    files: tuple[Written, ...]
    decoded: DecodeResult | None

    @property
    def records(self) -> int:
        """How many records were copied."""
        return sum(file.rows for file in self.files)


def refuse_torn(copied: Copied, planned: Ranges) -> None:
    """Raise CopyIncomplete unless each file is a piece of the planned ranges, no two files overlap, and all records were decoded.

    Offsets without a record are allowed: whether they are lost is decided later.
    """
    reached: dict[Partition, int] = {}
    intervals = dict(planned.intervals)
    for partition, (low, end), rows in sorted(map(_piece, copied.files)):
        start, mine = reached.get(partition, 0), intervals.get(partition, ())
        if low < start or rows > end - low or not any(first <= low and end <= to for first, to in mine):
            shown = ", ".join(f"[{first}, {to})" for first, to in mine) or "nothing"
            raise CopyIncomplete(
                f"a task copied {rows} records of offsets [{low}, {end}) of {named(partition)}, but {shown} was planned, and "
                f"other tasks copied up to {start}; nothing was committed; run `tandem archive` again"
            )
        reached[partition] = end
    if copied.decoded is not None and copied.decoded.records != copied.records:
        raise CopyIncomplete(
            f"{copied.records} records were copied and {copied.decoded.records} of them decoded; nothing was committed; run "
            "`tandem archive` again"
        )


def _piece(file: Written) -> tuple[Partition, Interval, int]:
    (topic, last_topic), (number, last_number), (low, high) = (file.bounds[name] for name in RECORDS.names)
    if (topic, number) != (last_topic, last_number):
        raise CopyIncomplete(
            f"a task copied records of {named((topic, number))} and of {named((last_topic, last_number))} into one file"
        )
    return (topic, number), (low, high + 1), file.rows


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
        typing = stack.enter_context(decode_to_files.opened(work)) if typed else None
        for piece in row_groups(map(with_headers, batches)):
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
    return Copied(tuple(file for one in done for file in one.files), decode_to_files.total(decoded) if typed else None)


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
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
