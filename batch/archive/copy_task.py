"""One Spark task of an archive run: it reads a piece of the log into a file of the archive, and decodes the records meanwhile.

Each record is read from the log once. No file belongs to a table before the driver has committed it, so a task that is repeated
or killed leaves litter and no record.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tandem.batch.archive import decode_to_files
from tandem.batch.archive.decode_to_files import DecodeResult, Decoding
from tandem.batch.runtime.parquet_writer import GROUP_ROWS, TableFile, Written
from tandem.infra import kafka
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


BOUNDED: Final = (*RECORDS.names, "timestamp")
"""The columns of the archive whose bounds every file has in the table's log."""

# A reader reads a row group as a whole: this bounds its memory, also for large records.
_GROUP_BYTES: Final = 32 << 20


def copy_range(
    address: kafka.Address, topics: Sequence[kafka.Topic], work: Decoding, piece: tuple[Partition, Interval], *, typed: bool
) -> Copied:
    """The task: copy the records of these offsets of a partition. Raises what `kafka.records_within` raises."""
    with closing(kafka.records_within(address, topics, *piece, columns=RECORDS_SCHEMA.names)) as records:
        return copy_records(work, records, typed=typed)


def copy_records(work: Decoding, records: Iterable[pa.Table], *, typed: bool) -> Copied:
    """Write records with the columns of RECORDS_SCHEMA to a file of `work.archive`.

    If `typed`, their events go to a file of `work.events`, their rejects to one of `work.quarantine`. A file exists only if it
    has rows.
    """
    with ExitStack() as stack:
        raw = stack.enter_context(TableFile(work.archive, RECORDS_SCHEMA, BOUNDED, in_log_order=True))
        typing = stack.enter_context(decode_to_files.opened(work)) if typed else None
        for piece in row_groups(batch for table in records for batch in table.to_batches()):
            raw.write(piece)
            if typing is not None:
                needed = piece.select(record_columns(typing.source))
                for start in range(0, piece.num_rows, typing.most):
                    typing.write(needed.slice(start, typing.most))
    return Copied(() if raw.written is None else (raw.written,), None if typing is None else typing.decoded)


def total(done: Sequence[Copied], *, typed: bool) -> Copied:
    """What all tasks copied."""
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
