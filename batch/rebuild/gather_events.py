"""Gather the events that a rebuild folds: what the ledger records of them, their files, and the slices that tasks read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tandem.batch.archive.decode_to_files import Decoding, decode
from tandem.batch.rebuild.inputs import LogRange
from tandem.batch.runtime.parallelism import FEW_ROWS, slices
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, FileRange, LogTable, log_table, rows_within, within_times
from tandem.ledger.files.scan import inside, scan
from tandem.ledger.files.splits import Slice, cut, even_rows
from tandem.ledger.log.archived_range import ArchivedRange, archived_range
from tandem.ledger.log.positions import Position
from tandem.views.kernel.deduplicate import identity_columns
from tandem.views.source.log_order import NONE_REJECTED, RejectedEvents, event_rejects
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import REJECTED_INDEX, Source, rejects_schema
from tandem.views.start import below


@dataclass(frozen=True)
class Split:
    """The slices of a rebuild: one task each.

    Args:
        compared: events to fold that are compared with what was served.
        beyond: events to fold beyond that, which nobody was served.
        searched: events to search for duplicates.
        history: events below the start, of which the searched ones may be duplicates.
    """

    compared: tuple[Slice, ...]
    beyond: tuple[Slice, ...]
    searched: tuple[Slice, ...] = ()
    history: tuple[Slice, ...] = ()

    @property
    def rows(self) -> int:
        """About how many events are folded."""
        return sum(part.rows for part in (*self.compared, *self.beyond))


def split(
    log: LogRange, archived: ArchivedRange, events: Sequence[FileRange], *, end: Position, parallelism: int, task_mb: int
) -> Split:
    """Split `[start, cut)` and, for duplicates, what lies below the start; a slice has at most `task_mb` megabytes of Parquet.

    Events from `end` on are beyond the comparison.
    """

    def sliced(files: Sequence[FileRange], covered: Ranges) -> tuple[Slice, ...]:
        return tuple(slices(files, covered, parallelism=parallelism, task_mb=task_mb))

    wanted = events
    if log.windows is not None and log.source.prepare is None:  # `prepare` may change event times
        wanted = within_times(events, *log.windows)
    compared, beyond = sliced(wanted, archived.up_to(end)), sliced(wanted, archived.beyond(end))
    if not log.source.identity:
        return Split(compared, beyond)
    timed = log.source.time_column in identity_columns(log.source)
    # Events of other windows may be duplicates of these only if duplicates may differ in event time.
    everything = log.windows is not None and not timed
    searched = sliced(events, archived.covered) if everything else (*compared, *beyond)
    if not log.start.offsets:
        return Split(compared, beyond, searched)
    before = _near_in_time(events, archived) if timed else events
    return Split(compared, beyond, searched, sliced(before, archived.before))


def _near_in_time(files: Sequence[FileRange], archived: ArchivedRange) -> Sequence[FileRange]:
    """The files that may have events of the same times as the events of the range."""
    times = [file.times for file in files if rows_within([file], archived.covered)]
    known = [both for both in times if both is not None]
    if not known or len(known) < len(times):
        return files
    return within_times(files, min(low for low, _ in known), max(high for _, high in known))


_DECODE_ROWS: Final = 1_000_000
_SCAN_ROWS: Final = 1 << 18


@dataclass(frozen=True)
class Quarantined:
    """The rejects of a range by reason, and which of them are `alone`: an event of a list."""

    reasons: Mapping[str, int] = field(hash=False)
    alone: RejectedEvents = NONE_REJECTED


@dataclass(frozen=True)
class Events:
    """The files of the events, what of the range is in quarantine, and how many records the range has.

    `records` is None if it was not counted, because every record of the topics is an event or reject of this source. `skipped`
    are those that the source skips; None if they are all records that are neither event nor reject.
    """

    place: Location
    files: tuple[FileRange, ...]
    quarantined: Quarantined
    records: int | None = None
    skipped: int | None = 0


def records_within(archive: LogTable, covered: Ranges) -> int:
    """The number of records that the archive has in these ranges."""
    # Most files lie inside the ranges: their row counts are enough.
    whole = [file for file in archive.files if inside(file, covered)]
    part = Slice(covered, tuple(file.path for file in archive.files if file not in whole), 0)
    found = scan(archive.place, part, archive.columns, [archive.columns.offset], rows=_SCAN_ROWS)
    return sum(file.rows for file in whole) + sum(int(rows.num_rows) for rows in found)


def tombstones_within(archive: LogTable, covered: Ranges) -> int:
    """The number of records without a value that the archive has in these ranges."""
    part = Slice(covered, tuple(file.path for file in archive.files if rows_within([file], covered)), 0)
    read = scan(archive.place, part, archive.columns, ["value"], rows=_SCAN_ROWS)
    return sum(int(rows["value"].null_count) for rows in read)


def count_skips(source: Source, archive: LogTable, covered: Ranges) -> int:
    """The number of records in these ranges that the source skips: those before its start, and tombstones."""
    early = below(source.start, covered)
    skipped = records_within(archive, early) if early.length else 0
    if source.tombstone_rule == "skip":
        skipped += tombstones_within(archive, covered) - (tombstones_within(archive, early) if early.length else 0)
    return skipped


def quarantined_within(source: Source, quarantine: LogTable, covered: Ranges) -> Quarantined:
    """What of these ranges is in a source's quarantine table."""
    rejects = [file for file in quarantine.files if rows_within([file], covered)]
    part = Slice(covered, tuple(file.path for file in rejects), sum(file.rows for file in rejects))
    reasons, alone = Counter[str](), NONE_REJECTED
    columns = [name for name in rejects_schema(source).names if name in ("reason", REJECTED_INDEX.name)]
    for rows in scan(quarantine.place, part, quarantine.columns, columns, rows=_SCAN_ROWS):
        reasons.update(rows["reason"].to_pylist())
        alone += event_rejects(rows)
    return Quarantined(dict(sorted(reasons.items())), alone)


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
        rows = even_rows(rows_within(archive.files, archived.covered), batch.parallelism, least=FEW_ROWS, most=_DECODE_ROWS)
        decoded = decode(batch.session, work, cut(archive.files, archived.covered, rows=rows), batch.schemas_of(log.source))
        rejects = Quarantined(dict(sorted(decoded.quarantined.items())), decoded.alone)
        events = Events(scratch, tuple(decoded.event_ranges()), rejects, decoded.records, decoded.skipped)
    else:
        stored = log_table(tables, tables.events(name, decoder), EVENTS, log.source.time_column)
        rejects = quarantined_within(log.source, log_table(tables, tables.quarantine(name, decoder), RECORDS), archived.covered)
        records, skipped = None, None if log.source.skips else 0
        if log.source.has_others or skipped is None:
            archive = log_table(tables, tables.archive(name), RECORDS)
            records = records_within(archive, archived.covered)
            if log.source.has_others and skipped is None:
                skipped = count_skips(log.source, archive, archived.covered)
        events = Events(stored.place, stored.files, rejects, records, skipped)
    slices = split(log, archived, events.files, end=end, parallelism=batch.parallelism, task_mb=batch.settings.batch.task_mb)
    return EventFiles(log, archived, events, slices)
