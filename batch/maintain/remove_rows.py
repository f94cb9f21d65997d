"""Remove rows from a table of the log: its files are written again without them, in one commit."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.batch.runtime.parquet_writer import TableFile, Written
from tandem.ledger.delta import delta_tables, retries
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, PositionColumns, file_ranges
from tandem.ledger.files.rows_at import may_hold, rows_at
from tandem.ledger.files.scan import inside
from tandem.views.source.offset_ranges import Ranges

_STATISTICS: Final = "delta.dataSkippingStatsColumns"
_ARCHIVE: Final = "archive"


def log_tables(tables: Tables, source: str) -> Iterator[tuple[str, PositionColumns]]:
    """The archive of a source, and the events and quarantine tables of every decoder, also of those that nothing needs."""
    yield tables.archive(source), RECORDS
    for decoder in tables.names("log", source):
        if decoder != _ARCHIVE:
            yield tables.events(source, decoder), EVENTS
            yield tables.quarantine(source, decoder), RECORDS


def remove_rows(tables: Tables, address: str, where: PositionColumns, erased: Ranges, *, at: datetime) -> int:
    """Remove the rows at these positions from a table; its files stay on the disk. Returns the number of removed rows.

    Does nothing if the table has no such row. A run that is killed leaves files that belong to no table. For the table's one
    writer. Raises Conflict, Unreadable, Unwritable.
    """
    handle = delta_tables.open_table(tables, address)
    if handle is None:
        return 0
    lease = tables.lease(address)
    handle = retries.claim(handle, lease)
    place, schema = Location.of(tables, address), pa.schema(handle.schema().to_arrow())
    configured = handle.metadata().configuration.get(_STATISTICS) or ""
    bounded = list(dict.fromkeys((*where.names, *filter(None, configured.split(",")))))
    old: list[str] = []
    written: list[Written] = []
    removed = 0
    for file in file_ranges(handle, where):
        if inside(file, erased):
            removed += file.rows
            old.append(file.path)
        elif may_hold(file, erased) and (rows := _count_rows(place, file.path, where, erased)):
            removed += rows
            old.append(file.path)
            written += _without(place, file.path, where, erased, schema=schema, bounded=bounded)
    if old:
        delta_tables.conditional_exchange(handle, old, [file.add_action() for file in written], at=at, lease=lease)
    return removed


def _count_rows(place: Location, path: str, where: PositionColumns, erased: Ranges) -> int:
    with opened(place, path) as file:
        groups = (file.read_row_group(group, where.names, use_threads=False) for group in range(file.num_row_groups))
        return sum(int(rows_at(rows, where, erased).sum()) for rows in groups)


def _without(
    place: Location, path: str, where: PositionColumns, erased: Ranges, *, schema: pa.Schema, bounded: list[str]
) -> Iterator[Written]:
    """The file without the erased rows, with the columns that it has beside the table's; none if no row is left."""
    with opened(place, path) as file:
        beside = [field for field in file.schema_arrow if field.name not in schema.names]
        with TableFile(place, schema, bounded, beside=beside, in_log_order=True) as kept:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, use_threads=False)
                kept.write(rows.filter(pa.array(np.logical_not(rows_at(rows, where, erased)))))
    if kept.written is not None:
        yield kept.written
