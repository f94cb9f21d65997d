"""Gather the events that a rebuild folds: what the ledger records of them, their files, and the slices that tasks read."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tandem.batch.archive.decode import Decoding, decode
from tandem.batch.rebuild.inputs import LogRange
from tandem.batch.rebuild.split import Split, split
from tandem.batch.runtime.parallelism import FEW_ROWS
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, FileRange, LogTable, log_table, rows_within
from tandem.ledger.files.scan import inside, scan
from tandem.ledger.files.splits import Slice, cut, even_rows
from tandem.ledger.log.archived_range import ArchivedRange, archived_range
from tandem.ledger.log.positions import Position
from tandem.views.source.offset_ranges import Ranges

_DECODE_ROWS: Final = 1_000_000
_SCAN_ROWS: Final = 1 << 18


@dataclass(frozen=True)
class Events:
    """The files of the events, how many records were quarantined by reason, and how many records the range has.

    `records` is None if it was not counted, because all records of the topics belong to this source.
    """

    place: Location
    files: tuple[FileRange, ...]
    quarantined: Mapping[str, int] = field(hash=False)
    records: int | None = None


def decoded_events(batch: BatchRun, work: Decoding, archive: LogTable, covered: Ranges) -> Events:
    """Decode the archive's records of these ranges into scratch files: a Spark job. Raises TaskFailed."""
    rows = even_rows(rows_within(archive.files, covered), batch.parallelism, least=FEW_ROWS, most=_DECODE_ROWS)
    decoded = decode(batch.session, work, cut(archive.files, covered, rows=rows))
    return Events(work.events, tuple(decoded.event_ranges()), dict(sorted(decoded.quarantined.items())), decoded.records)


def stored_events(events: LogTable, quarantine: LogTable, archive: LogTable | None, covered: Ranges) -> Events:
    """The events table's files, and what the other tables hold of these ranges. Raises Unreadable."""
    rejects = quarantined_within(quarantine, covered)
    return Events(events.place, events.files, rejects, None if archive is None else records_within(archive, covered))


def records_within(archive: LogTable, covered: Ranges) -> int:
    """The number of records that the archive has in these ranges."""
    # Most files lie inside the ranges: their row counts are enough.
    whole = [file for file in archive.files if inside(file, covered)]
    part = Slice(covered, tuple(file.path for file in archive.files if file not in whole), 0)
    found = scan(archive.place, part, archive.columns, [archive.columns.offset], rows=_SCAN_ROWS)
    return sum(file.rows for file in whole) + sum(int(rows.num_rows) for rows in found)


def quarantined_within(quarantine: LogTable, covered: Ranges) -> dict[str, int]:
    """How many records of these ranges are in a quarantine table, by reason."""
    rejects = [file for file in quarantine.files if rows_within([file], covered)]
    part = Slice(covered, tuple(file.path for file in rejects), sum(file.rows for file in rejects))
    reasons = Counter[str]()
    for rows in scan(quarantine.place, part, quarantine.columns, ["reason"], rows=_SCAN_ROWS):
        reasons.update(rows["reason"].to_pylist())
    return dict(sorted(reasons.items()))


@dataclass(frozen=True)
class EventFiles:
    """The events of `log`, and where they are.

    Args:
        archived: what the archive's ledger records of the range.
        events: the files of the events.
        slices: the parts of the log that the tasks read.
    """

    log: LogRange
    archived: ArchivedRange
    events: Events
    slices: Split


def gather_events(batch: BatchRun, log: LogRange, end: Position, scratch: Location) -> EventFiles:
    """Read the ledger, list the files of the events, and split the log for the tasks; events from `end` on are not compared.

    A raw range is first decoded from the archive into `scratch`, which is a Spark job. Raises TaskFailed, Unreadable.
    """
    tables = batch.tables
    name, decoder = log.source.name, log.decoder
    archived = archived_range(tables, name, decoder, log.start, log.cut)
    if log.raw:
        archive = log_table(tables, tables.archive(name), RECORDS)
        work = Decoding(log.release.files, name, archive.place, scratch, scratch)
        events = decoded_events(batch, work, archive, archived.covered)
    else:
        stored = log_table(tables, tables.events(name, decoder), EVENTS, log.source.event_time)
        quarantine = log_table(tables, tables.quarantine(name, decoder), RECORDS)
        records = None if log.source.record_filter is None else log_table(tables, tables.archive(name), RECORDS)
        events = stored_events(stored, quarantine, records, archived.covered)
    slices = split(log, archived, events.files, end=end, parallelism=batch.parallelism, task_mb=batch.settings.batch.task_mb)
    return EventFiles(log, archived, events, slices)
