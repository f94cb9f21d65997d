"""Plan an adoption: count both sides of the seam by day, and decode a sample of the rows. Nothing is written."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from tandem.batch.adopt.adopt import AdoptRequest, first_offsets, new_files, refusal, row_ends, seam_of
from tandem.batch.adopt.database import history_table
from tandem.batch.adopt.mapping import map_rows
from tandem.batch.adopt.places import PlaceSpan, check_places, spans
from tandem.batch.adopt.record_times import RecordTimes
from tandem.batch.adopt.table import HistoryTable, NotAdopted
from tandem.batch.adopt.write_rows import RowTask, to_records
from tandem.batch.runtime.session import BatchRun
from tandem.batch.runtime.spark_jobs import TaskFailed
from tandem.infra.spark.errors import SPARK_ERRORS, sentence
from tandem.infra.spark.versions import compared
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.location import Location
from tandem.ledger.log.adoptions import TABLES, Adoptions
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.views.arrow.python_values import scalar
from tandem.views.decode.decode_records import decode
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.kernel.deduplicate import deduplicate, identity_columns
from tandem.views.source.source import Source

SAMPLE: Final = 10_000
"""The number of rows that are decoded."""
COMPARED: Final = 1_000_000
"""The number of rows that are compared by identity."""
_DAYS: Final = 7
_TOPIC: Final = "_topic_id"


@dataclass(frozen=True)
class LogSide:
    """The rows of a table that do not count, as the log has their events: from a time on, or by partition from an offset on."""

    until: datetime | None
    firsts: Mapping[int, int] = field(default_factory=dict, hash=False)

    def has(self, rows: pa.RecordBatch, times: pa.Array) -> pa.Array:
        """Which rows they are."""
        if self.until is not None:
            return pc.greater_equal(times, scalar(self.until, times.type))
        if not self.firsts:
            return pa.repeat(pa.scalar(False), len(times))
        firsts = pa.array([self.firsts.get(number) for number in rows.column("partition").to_pylist()], pa.int64())
        return pc.fill_null(pc.greater_equal(rows.column("offset"), firsts), False)


class MappedRows(Protocol):
    """The rows of files of a table: `value` and `file`, with `topic`, `partition` and `offset` if they have coordinates."""

    def by_day(self, side: LogSide) -> Mapping[tuple[date, bool], int]:
        """The number of rows by day in UTC, and by whether they are on the log's side."""

    def first(self, number: int, days: tuple[date, date] | None = None) -> pa.Table:
        """At most this number of rows, of these days and those between them."""

    def places(self) -> list[PlaceSpan]:
        """Where in the topic the rows were."""


@dataclass(frozen=True)
class SparkRows:
    """Rows that Spark reads."""

    frame: DataFrame
    times: RecordTimes

    def by_day(self, side: LogSide) -> Mapping[tuple[date, bool], int]:
        """One Spark job."""
        days = self.frame.mapInArrow(compared(partial(count_days, self.times, side)), "day date, late boolean, n bigint")
        counts = Counter[tuple[date, bool]]()
        for row in days.toArrow().to_pylist():
            counts[row["day"], row["late"]] += row["n"]
        return counts

    def first(self, number: int, days: tuple[date, date] | None = None) -> pa.Table:
        """One Spark job, which reads no further than it needs."""
        frame = self.frame
        if days is not None:
            frame = frame.mapInArrow(compared(partial(rows_of_days, self.times, days)), frame.schema)
        return frame.limit(number).toArrow()

    def places(self) -> list[PlaceSpan]:
        """One Spark job."""
        return spans(self.frame)


def count_days(times: RecordTimes, side: LogSide, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of each batch by day, and by whether they are on the log's side."""
    for batch in batches:
        moments = times.column(batch.column("value"))
        rows = pa.table({"day": moments.cast(pa.date32()), "late": side.has(batch, moments)})
        counts = rows.group_by(["day", "late"], use_threads=False).aggregate([([], "count_all")])
        yield from counts.rename_columns(["day", "late", "n"]).to_batches()


def rows_of_days(times: RecordTimes, days: tuple[date, date], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of these days and of those between them."""
    for batch in batches:
        day = times.column(batch.column("value")).cast(pa.date32())
        first, last = (pa.scalar(each, pa.date32()) for each in days)
        yield batch.filter(pc.and_(pc.greater_equal(day, first), pc.less_equal(day, last)))


@dataclass(frozen=True)
class SeamDay:
    """The events of a day on both sides.

    `log` is None if no event of the log is archived. By identity `twice` are events that an earlier row of the table has, and
    `both` those of the others that the log has; None if they were not compared.
    """

    day: date
    table: int
    log: int | None
    twice: int | None = None
    both: int | None = None


@dataclass(frozen=True)
class AdoptPlan:
    """What an adoption would add.

    Args:
        days: those around history_until, else the last ones of the table.
        log: the number of archived events of the log; None if none is archived.
        others: rows on the log's side of the seam, which do not count.
        sampled: the number of rows that were decoded.
        rejects: of the sampled rows, by reason.
        compared: the number of events of the table on these days that were compared by identity, at most COMPARED.
        refusal: why `adopt` would refuse now.
        read: the bytes of the files.
        written: about how many bytes the rows have as records, before compression, by the sampled ones.
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
    refusal: str | None = None
    read: int = 0
    written: int = 0


Read = Callable[[HistoryTable, list[str]], MappedRows]
"""Reads the rows of files of a table."""


def plan(batch: BatchRun, source: Source, request: AdoptRequest, *, read: Read | None = None) -> AdoptPlan:
    """Plan the adoption of the files of the table that were not adopted yet.

    Raises NotAdopted if the source or the table cannot be adopted, TaskFailed if Spark cannot read it.
    """
    seam_of(source, request)  # refuses a source before anything is read
    with history_table(batch, str(request.table)) as table:
        return _plan(batch, source, request, table, read)


def _plan(batch: BatchRun, source: Source, request: AdoptRequest, table: HistoryTable, read: Read | None) -> AdoptPlan:
    seam, times = seam_of(source, request), RecordTimes.of(source)
    tables, adoptions = batch.tables, Adoptions(batch.tables, source.name)
    files = new_files(adoptions, table)
    late = refusal(ArchiveLedger(tables, source.name), request.topic)
    log = _LogEvents(source, delta_tables.open_table(tables, tables.events(source.name, decoder_fingerprint(source))))
    logged = log.by_day()
    if not files:
        return AdoptPlan(table.version, 0, 0, seam, log=sum(logged.values()) or None, refusal=late)

    def spark_rows(table: HistoryTable, files: list[str]) -> MappedRows:
        return SparkRows(map_rows(source, table.rows(batch.session, files), request.expressions, request.coordinates), times)

    firsts = {} if request.coordinates is None else first_offsets(source)
    task = RowTask(Location.of(tables, tables.archive(source.name)), table.version, {}, times)
    try:
        rows = (read or spark_rows)(table, files)
        if firsts:
            late = late or _displacement(source, rows, row_ends(adoptions, request), firsts)
        counts = rows.by_day(LogSide(source.history_until, firsts))
        sampled = to_records(task, 0, 0, rows.first(SAMPLE))
        decoded = decode(source, sampled)
        by_day = Counter[date]()
        for (day, _), number in counts.items():
            by_day[day] += number
        days, events = list(_days(by_day, logged, source.history_until)), None
        if source.identity and days:
            events = decode(source, to_records(task, 0, 0, rows.first(COMPARED, (days[0].day, days[-1].day)))).events
            days = list(log.compare(events, days))
    except SPARK_ERRORS as error:
        raise TaskFailed(f"table {table.name} cannot be read: {sentence(error)}") from error
    return AdoptPlan(
        table.version,
        len(files),
        by_day.total(),
        seam,
        tuple(days),
        sum(logged.values()) or None,
        sum(number for (_, later), number in counts.items() if later),
        sampled.num_rows,
        Counter(decoded.rejects["reason"].to_pylist()),
        0 if events is None else events.num_rows,
        late,
        table.size(files),
        sampled.nbytes * by_day.total() // max(1, sampled.num_rows),
    )


def _displacement(source: Source, rows: MappedRows, ends: Mapping[int, int], firsts: Mapping[int, int]) -> str | None:
    """Why `adopt` would refuse the places of the rows."""
    try:
        check_places(source, rows.places(), ends, firsts)
    except NotAdopted as refused:
        return str(refused)
    return None


def _days(table: Mapping[date, int], log: Mapping[date, int], until: datetime | None) -> Iterator[SeamDay]:
    """The days with events of the week around `until`, else of the table's last week."""
    last = max(table, default=None) if until is None else until.astimezone(UTC).date() + timedelta(days=_DAYS // 2)
    for day in sorted(table.keys() | log.keys()):
        if last is not None and last - timedelta(days=_DAYS) < day <= last:
            yield SeamDay(day, table.get(day, 0), log.get(day, 0) if log else None)


@dataclass(frozen=True)
class _LogEvents:
    """The archived events of a source that are not rows of a table; None before the first archive run."""

    source: Source
    events: DeltaTable | None

    def by_day(self) -> Mapping[date, int]:
        """The number of events by day in UTC."""
        days = Counter[date]()
        for events in self._files([self.source.time_column]):
            days += self._count(events)
        return days

    def compare(self, events: pa.Table, days: Sequence[SeamDay]) -> Iterator[SeamDay]:
        """The days, with what of these events of a table occurs again by identity."""
        once = left = deduplicate(self.source, events).events
        for logged in self._files(identity_columns(self.source)):
            left = deduplicate(self.source, left, logged).events
        every, first, rest = map(self._count, (events, once, left))
        for each in days:
            both = None if each.log is None else first[each.day] - rest[each.day]
            yield replace(each, twice=every[each.day] - first[each.day], both=both)

    def _count(self, events: pa.Table) -> Counter[date]:
        pairs = pc.value_counts(events[self.source.time_column].cast(pa.date32())).to_pylist()
        return Counter({pair["values"]: pair["counts"] for pair in pairs})

    def _files(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        if self.events is None:
            return
        for path in delta_tables.files(self.events):
            events = delta_tables.read_file(self.events, path, [_TOPIC, *columns])
            yield events.filter(pc.invert(pc.is_in(events[_TOPIC], value_set=pa.array([*TABLES])))).select(columns)
