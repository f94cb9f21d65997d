"""An archive of runs that decoders have finished, only in its ledger: no record is read."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import APP_ID, ArchiveLedger
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position

AT = datetime(2026, 11, 1, tzinfo=UTC)


def at(offset: int) -> Position:
    return Position.of({("T", 0): offset})


def archived(tables: Tables, source: str, *ends: int) -> None:
    """A run up to each of these offsets."""
    start = LOG_START
    for end in ends:
        run = ArchiveLedger(tables, source).intend(start=start, end=at(end), by="test", at=AT)
        _write(tables.archive(source), run.number)
        start = run.end


def decoded(tables: Tables, source: str, decoder: str, found: Sequence[Counts]) -> None:
    """What a decoder has found in the first runs."""
    for run, counts in enumerate(found, 1):
        for address in (tables.events(source, decoder), tables.quarantine(source, decoder)):
            _write(address, run)
        ArchiveLedger(tables, source).finish(decoder, run, counts=counts, newest=AT, at=AT)


def _write(address: str, run: int) -> None:
    once = CommitProperties(app_transactions=[Transaction(APP_ID, run)])
    write_deltalake(address, pa.table({"run": [run]}), mode="append", commit_properties=once)
