"""Gather the events that a rebuild folds: what the ledger records of them, their files, and the slices that tasks read."""

from dataclasses import dataclass

from tandem.batch.archive.decode import Decoding
from tandem.batch.rebuild.events import Events, decoded_events, stored_events
from tandem.batch.rebuild.inputs import LogRange
from tandem.batch.rebuild.split import Split, split
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, log_table
from tandem.ledger.log.archived_range import ArchivedRange, archived_range
from tandem.ledger.log.positions import Position


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
