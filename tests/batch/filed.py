"""An archive without a log: sample records of topics and their generations, written as archive runs would."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.parquet_writer import TableFile
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.log.archive_runs import APP_ID, ArchiveLedger
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.log.positions import LOG_START, Position, upper
from tandem.views.source.offset_ranges import Partition, Ranges
from tandem.views.source.source import RECORDS_SCHEMA

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
SOURCE = "sales"
BOUNDED = ("topic_id", "partition", "offset", "timestamp")

DEFINITIONS = b"""
from datetime import datetime
from tandem import Event, Source

class Sale(Event):
    at: datetime

sales = Source(topic="sales", event=Sale, event_time="at")
SOURCES = (sales,)
VIEWS = ()
"""

Row = Mapping[str, Any]


@dataclass
class Filed:
    """A source's archive: what its runs filed, by hand."""

    tables: Tables
    source: str = SOURCE
    rows: list[Row] = field(default_factory=list)

    @property
    def end(self) -> Position:
        """How far the archive reaches."""
        return ArchiveLedger(self.tables, self.source).archived()

    def name(self, name: str, topic: str) -> None:
        """What archive calls a topic before its first run."""
        ArchiveLedger(self.tables, self.source).name_topics({name: topic}, at=AT)

    def file(self, rows: Sequence[Row], ends: Mapping[Partition, int], firsts: Mapping[Partition, int] | None = None) -> None:
        """One run up to `ends` with these records."""
        ledger = ArchiveLedger(self.tables, self.source)
        known = ledger.runs()
        start = known[-1].end if known else LOG_START
        end = upper(start, Position.of(ends))
        run = ledger.intend(start=start, end=end, firsts=firsts or {}, by="archive", at=AT)
        address = self.tables.archive(self.source)
        handle = delta_commits.make_table(self.tables, address, RECORDS_SCHEMA, bounded=BOUNDED)
        written = []
        for place in sorted({(row["topic_id"], row["partition"]) for row in rows}):
            with TableFile(Location.of(self.tables, address), RECORDS_SCHEMA, BOUNDED) as file:
                mine = [row for row in rows if (row["topic_id"], row["partition"]) == place]
                file.write(pa.Table.from_pylist(mine, RECORDS_SCHEMA))
            assert file.written is not None
            written.append(file.written)
        delta_commits.add_files(handle, written, transaction=(APP_ID, run.number))
        ledger.check(run.number, at=AT)
        self.rows += rows

    def finish(self, decoder: str) -> None:
        """Have all runs decoded, as far as the ledger knows."""
        ledger = ArchiveLedger(self.tables, self.source)
        for address in (self.tables.events(self.source, decoder), self.tables.quarantine(self.source, decoder)):
            handle = delta_commits.make_table(self.tables, address, pa.schema([("x", pa.int64())]))
            delta_commits.add_files(handle, [], transaction=(APP_ID, len(ledger.runs())))
        for run in ledger.runs():
            ledger.finish(decoder, run.number, counts=Counts(), newest=None, at=AT)

    def lose(self, ranges: Ranges) -> None:
        """Record a gap."""
        Gaps(self.tables).record(self.source, ranges, reason="lost", at=AT)


def row(topic: str, partition: int, offset: int, seed: int = 0) -> Row:
    """A record whose every byte follows from where it is."""
    dice = random.Random(f"{topic} {partition} {offset} {seed}")

    def binary() -> bytes | None:
        return dice.choice([None, b"", dice.randbytes(dice.randrange(1, 9))])

    return {
        "topic_id": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": AT + timedelta(milliseconds=dice.randrange(10**9)),
        "timestamp_type": dice.randrange(2),
        "key": binary(),
        "value": binary(),
        "headers": dice.choice([None, [], [{"key": "a", "value": binary()}, {"key": "a", "value": None}]]),
    }


def rows_in(tables: Tables, source: str = SOURCE) -> list[Row]:
    """All records of an archive, in order of topic id, partition and offset."""
    handle = delta_tables.open_table(tables, tables.archive(source))
    if handle is None:
        return []
    files = delta_tables.storage(handle)
    tables_of = (pq.ParquetFile(files.open(path)).read().cast(RECORDS_SCHEMA) for path in delta_tables.files(handle))
    return in_order([row for table in tables_of for row in table.to_pylist()])


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Rows in order of topic id, partition and offset."""
    return sorted(rows, key=lambda row: (row["topic_id"], row["partition"], row["offset"]))
