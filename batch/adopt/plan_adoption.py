"""Plan an adoption: count both sides of the seam by day, and decode a sample of the rows. Nothing is written."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from tandem.batch.adopt.adopt import AdoptRequest, new_files, refusal, seam_of
from tandem.batch.adopt.mapping import map_rows
from tandem.batch.adopt.table import HistoryTable
from tandem.batch.adopt.write_rows import to_records
from tandem.batch.runtime.session import BatchRun
from tandem.batch.runtime.spark_jobs import TaskFailed
from tandem.infra.spark.errors import SPARK_ERRORS, sentence
from tandem.ledger.delta import delta_tables
from tandem.ledger.log.adoptions import TABLES, Adoptions
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.views.decode.decode_records import decode
from tandem.views.fingerprint.fingerprint import decoder_fingerprint
from tandem.views.instant import microseconds
from tandem.views.kernel.deduplicate import deduplicate, identity_columns
from tandem.views.source.source import Source

SAMPLE: Final = 10_000
"""The number of rows that are decoded."""
_DAYS: Final = 7
_TOPIC: Final = "_topic_id"


class MappedRows(Protocol):
    """The rows of files of a table as records: `value`, `timestamp` and `file`."""

    def by_day(self, until: datetime | None) -> Mapping[tuple[date, bool], int]:
        """The number of rows by day in UTC, and by whether they are at `until` or later."""

    def sample(self, since: datetime | None) -> pa.Table:
        """At most SAMPLE rows, from `since` on."""


@dataclass(frozen=True)
class SparkRows:
    """Rows that Spark reads."""

    frame: DataFrame

    def by_day(self, until: datetime | None) -> Mapping[tuple[date, bool], int]:
        """One Spark job."""
        time = sql.col("timestamp")
        late = sql.lit(False) if until is None else time >= _instant(until)
        days = self.frame.groupBy(sql.to_date(time).alias("day"), late.alias("late")).agg(sql.count("*").alias("n"))
        return {(row["day"], row["late"]): row["n"] for row in days.toArrow().to_pylist()}

    def sample(self, since: datetime | None) -> pa.Table:
        """One Spark job, which reads no further than it needs."""
        frame = self.frame if since is None else self.frame.where(sql.col("timestamp") >= _instant(since))
        return frame.limit(SAMPLE).toArrow()


@dataclass(frozen=True)
class SeamDay:
    """The events of a day on both sides; `log` is None if no event of the log is archived."""

    day: date
    table: int
    log: int | None


@dataclass(frozen=True)
class AdoptPlan:
    """What an adoption would add.

    Args:
        days: those around history_until, else the last ones of the table.
        log: the number of archived events of the log; None if none is archived.
        others: rows at history_until or later, which count on the log's side.
        sampled: the number of rows that were decoded.
        rejects: of the sampled rows, by reason.
        compared: the number of sampled rows from the log's first day on, which were compared with the log by identity.
        duplicates: of the compared rows; None if nothing was compared.
        refusal: why `adopt` would refuse now.
    """

    version: str
    files: int
    rows: int
    seam: str
    days: Sequence[SeamDay] = ()
    log: int | None = None
    others: int = 0
    sampled: int = 0
    rejects: Mapping[str, int] = field(default_factory=dict, hash=False)
    compared: int = 0
    duplicates: int | None = None
    refusal: str | None = None


Read = Callable[[HistoryTable, list[str]], MappedRows]
"""Reads the rows of files of a table."""


def plan(batch: BatchRun, source: Source, request: AdoptRequest, *, read: Read | None = None) -> AdoptPlan:
    """Plan the adoption of the files of the table that were not adopted yet.

    Raises NotAdopted if the source or the table cannot be adopted, TaskFailed if Spark cannot read it.
    """
    seam, table = seam_of(source, request), HistoryTable.of(request.table)
    files = new_files(Adoptions(batch.tables, source.name), table)
    late = refusal(ArchiveLedger(batch.tables, source.name), request.topic)
    log = _LogEvents(source, delta_tables.open_table(batch.tables, batch.tables.events(source.name, decoder_fingerprint(source))))
    logged = log.by_day()
    if not files:
        return AdoptPlan(table.version, 0, 0, seam, log=sum(logged.values()) or None, refusal=late)

    def spark_rows(table: HistoryTable, files: list[str]) -> MappedRows:
        return SparkRows(map_rows(source, table.rows(batch.session, files), request.expressions))

    try:
        rows = (read or spark_rows)(table, files)
        counts = rows.by_day(source.history_until)
        decoded = decode(source, to_records(table.version, 0, 0, sampled := rows.sample(None)))
        overlap = _overlap(source, table, rows, min(logged)) if logged and source.history_until is None else None
    except SPARK_ERRORS as error:
        raise TaskFailed(f"table {table.path} cannot be read: {sentence(error)}") from error
    by_day = Counter[date]()
    for (day, _), number in counts.items():
        by_day[day] += number
    return AdoptPlan(
        table.version,
        len(files),
        by_day.total(),
        seam,
        tuple(_days(by_day, logged, source.history_until)),
        sum(logged.values()) or None,
        sum(number for (_, later), number in counts.items() if later),
        sampled.num_rows,
        Counter(decoded.rejects["reason"].to_pylist()),
        0 if overlap is None else overlap.num_rows,
        None if overlap is None else log.duplicates(overlap),
        late,
    )


def _instant(time: datetime) -> Column:
    return sql.timestamp_micros(sql.lit(microseconds(time)))


def _days(table: Mapping[date, int], log: Mapping[date, int], until: datetime | None) -> Iterator[SeamDay]:
    """The days with events of the week around `until`, else of the table's last week."""
    last = max(table, default=None) if until is None else until.astimezone(UTC).date() + timedelta(days=_DAYS // 2)
    for day in sorted(table.keys() | log.keys()):
        if last is not None and last - timedelta(days=_DAYS) < day <= last:
            yield SeamDay(day, table.get(day, 0), log.get(day, 0) if log else None)


def _overlap(source: Source, table: HistoryTable, rows: MappedRows, first: date) -> pa.Table:
    """The events of rows from the log's first day on."""
    since = datetime(first.year, first.month, first.day, tzinfo=UTC)
    return decode(source, to_records(table.version, 0, 0, rows.sample(since))).events


@dataclass(frozen=True)
class _LogEvents:
    """The archived events of a source that are not rows of a table; None before the first archive run."""

    source: Source
    events: DeltaTable | None

    def by_day(self) -> Mapping[date, int]:
        """The number of events by day in UTC."""
        days = Counter[date]()
        for events in self._files([self.source.time_column]):
            for pair in pc.value_counts(events[self.source.time_column].cast(pa.date32())).to_pylist():
                days[pair["values"]] += pair["counts"]
        return days

    def duplicates(self, events: pa.Table) -> int:
        """How many of these events of a table the log has, by identity."""
        before = left = deduplicate(self.source, events).events
        for logged in self._files(identity_columns(self.source)):
            left = deduplicate(self.source, left, logged).events
        return int(before.num_rows - left.num_rows)

    def _files(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        if self.events is None:
            return
        for path in delta_tables.files(self.events):
            events = delta_tables.read_file(self.events, path, [_TOPIC, *columns])
            yield events.filter(pc.invert(pc.is_in(events[_TOPIC], value_set=pa.array([*TABLES])))).select(columns)
