"""Compact archive, events and quarantine: rewrite small files as larger ones with the same rows, in log order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import pyarrow as pa

from tandem.batch.runtime.parquet_writer import GROUP_ROWS, TableFile, Written
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import FileRange, PositionColumns, file_ranges
from tandem.ledger.files.identity_hashes import kept_beside
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice, cut
from tandem.ledger.log.positions import Position
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Partition, Ranges

_STATISTICS: Final = "delta.dataSkippingStatsColumns"


class RowsLost(TandemError, code="compaction-rows-lost"):
    """The rewritten files have another number of rows; nothing was committed."""


@dataclass(frozen=True)
class Compaction:
    """The files `old`, to rewrite as one file for each of the slices, which have all of their rows."""

    old: frozenset[str]
    slices: tuple[Slice, ...]


@dataclass(frozen=True)
class MostTime:
    """How far apart the times of a `column` may be in one file: else old rows stay as long as new ones."""

    column: str
    span: timedelta


def compact(
    tables: Tables,
    address: str,
    where: PositionColumns,
    end: Position,
    *,
    file_bytes: int,
    at: datetime,
    most: MostTime | None = None,
) -> tuple[int, int]:
    """Rewrite small neighbouring files as files of about `file_bytes`, in one commit. Returns the numbers before and after.

    `end` is the end of the log in the table, `most` the most time that a new file may span. Removed files stay on the disk for
    their readers. If killed, it leaves files that belong to no table. For the table's one writer. Raises Conflict, Unreadable,
    Unwritable, RowsLost.
    """
    handle = delta_tables.open_table(tables, address)
    files = [] if handle is None else file_ranges(handle, where, most.column if most else "")
    found = plan(files, end, file_bytes=file_bytes, span=most.span if most else timedelta.max)
    if handle is None or not found.old:
        return 0, 0
    schema = pa.schema(handle.schema().to_arrow())
    configured = handle.metadata().configuration.get(_STATISTICS) or ""
    bounded = list(dict.fromkeys((*where.names, *filter(None, configured.split(",")))))
    written, place = [], Location.of(tables, address)
    for part in found.slices:
        beside = kept_beside(place, part)
        with TableFile(place, schema, bounded, beside=beside, in_log_order=True) as file:
            for rows in scan(place, part, where, [*schema.names, *(field.name for field in beside)], rows=GROUP_ROWS):
                file.write(rows)
        written += [file.written] if file.written else []
    _refuse_lost(address, [file for file in files if file.path in found.old], written)
    moved = [replace(file.add_action(), data_change=False) for file in written]
    delta_tables.conditional_exchange(handle, found.old, moved, at=at, lease=tables.lease(address))
    return len(found.old), len(written)


def plan(files: Sequence[FileRange], end: Position, *, file_bytes: int, span: timedelta = timedelta.max) -> Compaction:
    """Plan what to rewrite: files smaller than half of `file_bytes` that have such a neighbour on a partition.

    Files whose times are more than `span` apart stay apart. A new file has rows of one partition, from a range of it in which no
    file stays.
    """
    rows = sum(file.rows for file in files)
    small = {file.path for file in files if 2 * file.size < file_bytes}
    old = frozenset(
        file.path
        for partition in end
        for run in _runs(files, partition, end[partition], small, span)
        if len(run) > 1
        for file in run
    )
    wanted = max(1, round(file_bytes * rows / max(1, sum(file.size for file in files))))
    slices = tuple(
        part
        for partition in end
        for run in _runs(files, partition, end[partition], old, span)
        for part in _slices(run, partition, wanted)
    )
    return Compaction(old, slices) if len(slices) < len(old) else Compaction(frozenset(), ())


def _runs(
    files: Sequence[FileRange], partition: Partition, end: int, chosen: set[str] | frozenset[str], span: timedelta
) -> Iterator[list[FileRange]]:
    """Groups of neighbouring chosen files of a partition, in log order, each with times at most `span` apart."""
    run: list[FileRange] = []
    for file in sorted((file for file in files if file.overlap(partition, (0, end))), key=lambda file: file.offsets):
        if run and (file.path not in chosen or _apart([*run, file]) > span):
            yield run
            run = []
        if file.path in chosen:
            run.append(file)
    if run:
        yield run


def _apart(files: Sequence[FileRange]) -> timedelta:
    times = [time for file in files for time in file.times or ()]
    return max(times) - min(times) if times else timedelta(0)


def _slices(run: Sequence[FileRange], partition: Partition, rows: int) -> list[Slice]:
    low, high = min(file.offsets[0] for file in run), max(file.offsets[1] for file in run)
    return cut(run, Ranges.of({partition: (low, high)}), rows=rows)


def _refuse_lost(address: str, old: Sequence[FileRange], new: Sequence[Written]) -> None:
    before, after = sum(file.rows for file in old), sum(file.rows for file in new)
    if before != after:
        raise RowsLost(f"{len(old)} files of table {address} have {before} rows by its log, but {after} were read; restore it")
