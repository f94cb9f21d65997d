"""Adopt: make rows of a table records of a source's archive, before all topics of the broker in the order of the log.

1. Name the topic of the rows, so that it is the first.
2. One Spark job writes the rows as files of the archive, which no table names yet.
3. Record the adoption with these files, then the archive run.
4. Make all of its rows visible in one commit with the run's number.

If an adoption is killed in 1 or 2, the next one starts over; after that the next one commits what was recorded, or writes its
rows again if its files were deleted, then looks for what is new. `archive` decodes the records, as those of an import.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tandem.batch.adopt.database import history_table
from tandem.batch.adopt.mapping import map_rows
from tandem.batch.adopt.places import check_places, order_by_place, spans
from tandem.batch.adopt.record_times import RecordTimes
from tandem.batch.adopt.table import HistoryTable, NotAdopted
from tandem.batch.adopt.write_rows import SCHEMA, RowTask, all_files, write_at_places, write_rows
from tandem.batch.archive.copy_task import BOUNDED
from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.parquet_writer import Written
from tandem.batch.runtime.session import BatchRun
from tandem.batch.runtime.spark_jobs import TaskFailed
from tandem.infra.spark.errors import SPARK_ERRORS, sentence
from tandem.infra.spark.versions import compared
from tandem.ledger.delta.errors import Vanished
from tandem.ledger.delta.location import Location
from tandem.ledger.log.adoptions import ROWS, TABLES, Adoption, Adoptions
from tandem.ledger.log.archive_runs import ADOPT, APP_ID, ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position, upper
from tandem.views.source.source import RECORDS_SCHEMA, Source
from tandem.views.start import PLACED, StartPositions

_decode = msgspec.json.Decoder(list[Written]).decode

Write = Callable[[RowTask, HistoryTable, list[str]], tuple[Written, ...]]
"""Writes the rows of files of a table as files of the archive."""


@dataclass(frozen=True)
class AdoptRequest:
    """The folder or address of a table, SQL of Spark by field, the time of `--until`, and SQL of topic, partition and offset."""

    table: Path | str
    expressions: Mapping[str, str]
    until: datetime | None = None
    coordinates: tuple[str, str, str] | None = None

    @property
    def topic(self) -> str:
        """The topic id of its rows."""
        return ROWS if self.coordinates is None else PLACED


@dataclass(frozen=True)
class AdoptResult:
    """The table's version, the files and rows that are new, and how the seam is decided."""

    version: str
    files: int
    rows: int
    seam: str


def seam_of(source: Source, request: AdoptRequest) -> str:
    """How each event at the seam of table and log counts once. Raises NotAdopted if nothing says so."""
    declared, until = source.history_until, request.until
    if request.coordinates is not None:
        if until is not None or declared is not None:
            raise NotAdopted("--coordinates and a time are two rules for one seam; keep either start or history_until")
        firsts = first_offsets(source)
        return f"by offset: of the table the rows before {firsts}, of topic '{source.topics[0]}' the records from then on"
    if until is not None and until != declared:
        raise NotAdopted(
            f"--until {until.isoformat()} needs history_until={until!r} in source {source.name!r}, so that every layer leaves "
            f"out the log's events before it; the source has {'none' if declared is None else declared.isoformat()}"
        )
    if source.start is not None:
        raise NotAdopted(
            f"source {source.name!r} declares where it starts, and history lies before it; add --coordinates "
            "TOPIC,PARTITION,OFFSET if the table has them, or remove start"
        )
    if source.max_events_per_record is not None:
        raise NotAdopted(f"source {source.name!r} has lists of events as values; a row of a table is one event")
    if declared is not None:
        return f"rows before {declared.isoformat()}, and records of the log from then on"
    if source.identity:
        return f"by identity ({', '.join(source.identity)}): of duplicates the row of the table counts"
    raise NotAdopted(
        f"source {source.name!r} has neither an identity nor history_until, so an event that both the table and the log have "
        "would count twice; declare one of them"
    )


def first_offsets(source: Source) -> dict[int, int]:
    """By partition the first offset that counts of the source's topic. Raises NotAdopted if its start does not say it."""
    start: Any = source.start
    if len(source.topics) == 1 and source.max_events_per_record is None:
        if isinstance(start, StartPositions):
            return start.table_ends
        if isinstance(start, tuple):
            return dict(start[0][1])
    raise NotAdopted(
        f"--coordinates needs start={{partition: offset}} in source {source.name!r}, of one topic and one event per record: rows "
        "before these offsets count, and records of the topic from then on"
    )


def run(batch: BatchRun, source: Source, request: AdoptRequest, *, write: Write | None = None) -> AdoptResult:
    """Adopt the files of the table that were not adopted yet. Archive runs wait meanwhile.

    Raises NotAdopted, TaskFailed before anything is visible.
    """
    seam_of(source, request)  # refuses a source before anything is read
    with history_table(batch, str(request.table)) as table:
        return _adopt(batch, source, request, table, write)


def _adopt(batch: BatchRun, source: Source, request: AdoptRequest, table: HistoryTable, write: Write | None) -> AdoptResult:
    seam, times = seam_of(source, request), RecordTimes.of(source)
    batch.hold("archive")
    tables, name = batch.tables, source.name
    delta_commits.make_table(tables, tables.archive(name), RECORDS_SCHEMA, bounded=BOUNDED)
    ledger, adoptions = ArchiveLedger(tables, name), Adoptions(tables, name)
    ledger.claim()
    if (late := refusal(ledger, request.topic)) is not None:
        raise NotAdopted(late)
    if ledger.unchecked() is not None or any(run.by != ADOPT for run in ledger.unwritten()):
        raise NotAdopted(f"an archive run of source {name!r} is incomplete; run `tandem archive`, then adopt again")
    ledger.name_topics({TABLES[request.topic]: request.topic}, at=batch.now())
    archive = Location.of(tables, tables.archive(name))
    write = write or _spark(batch, source, request)
    left = adoptions.pending(ledger.archived())
    if left is not None:
        try:
            finish(batch, ledger, left)
        except Vanished:
            task = RowTask(archive, left.version, _ends(_start_of(adoptions, left), request.topic), times)
            again = _write_again(left, table, task, request.topic, write)
            adoptions.record(replace(again, at=batch.now()))
            finish(batch, ledger, again)
    files = new_files(adoptions, table)
    if not files:
        return AdoptResult(table.version, 0, 0, seam)
    start = _end_of(adoptions)
    batch.say(f"{name}: adopting {len(files)} files of {table.name}")
    written = write(RowTask(archive, table.version, _ends(start, request.topic), times), table, files)
    table.check()
    rows = sum(file.rows for file in written)
    contents = {path: table.files[path] for path in files}
    adoption = Adoption(
        table.name, table.version, contents, _end(start, written, request.topic), rows, _json(written), batch.now()
    )
    adoptions.record(adoption)
    finish(batch, ledger, adoption)
    return AdoptResult(table.version, len(files), rows, seam)


def row_ends(adoptions: Adoptions, request: AdoptRequest) -> dict[int, int]:
    """By partition the offsets up to which rows were adopted."""
    return _ends(_end_of(adoptions), request.topic)


def _end_of(adoptions: Adoptions) -> Position:
    earlier = adoptions.every()
    return earlier[-1].end if earlier else LOG_START


def _start_of(adoptions: Adoptions, left: Adoption) -> Position:
    """Where an adoption begins; it is recorded with its end, from the end of the adoption before it."""
    return next((each.end for each in reversed(adoptions.every()) if each.end != left.end), LOG_START)


def _write_again(left: Adoption, table: HistoryTable, task: RowTask, topic: str, write: Write) -> Adoption:
    """An adoption whose files were deleted before their commit, with its rows in new files at the same offsets.

    Raises NotAdopted unless this is its table, with the same files.
    """
    if left.table != table.name:
        raise NotAdopted(f"an adoption of table {left.table} is incomplete; run `tandem adopt` with that table first")
    table.newer_files(left.files)
    written = write(task, table, sorted(left.files))
    table.check()
    if {**task.ends, **_ends(_end(LOG_START, written, topic), topic)} != _ends(left.end, topic):
        raise NotAdopted(
            f"an adoption of table {left.table} is incomplete, its files in the archive were deleted, and its rows are divided "
            "otherwise now; set spark.master as it was, or begin with a new state folder"
        )
    return replace(left, archive_files=_json(written))


def _ends(position: Position, of: str) -> dict[int, int]:
    return {number: end for (topic, number), end in position.items() if topic == of}


def _end(start: Position, written: tuple[Written, ...], topic: str) -> Position:
    added = {(topic, file.bounds["partition"][0]): file.bounds["offset"][1] + 1 for file in _last(written)}
    return upper(start, Position.of(added))


def refusal(ledger: ArchiveLedger, rows: str) -> str | None:
    """Why the source cannot adopt any more rows of this topic id: history comes before its topics."""
    topics = ledger.topic_names()
    read = [name for topic, name in topics.items() if topic not in TABLES]
    if not read or rows in topics:
        return None
    return (
        f"source {ledger.source!r} has already read topic '{read[0]}', and history comes before it: adopt in "
        "a new state folder, before `tandem up` and `tandem archive`"
    )


def new_files(adoptions: Adoptions, table: HistoryTable) -> list[str]:
    """The files of the table that were not adopted yet. Raises NotAdopted if an adopted file is gone or is another."""
    same = [adoption for adoption in adoptions.every() if adoption.table == table.name]
    return table.newer_files({path: content for adoption in same for path, content in adoption.files.items()})


def finish(batch: BatchRun, ledger: ArchiveLedger, adoption: Adoption) -> None:
    """Make the rows of the newest adoption visible, unless they are."""
    if not adoption.rows or adoption.end.at_or_below(ledger.archived()):
        return
    unwritten = ledger.unwritten()
    if unwritten:
        run = unwritten[0]
    else:
        runs = ledger.runs()
        start = runs[-1].end if runs else LOG_START
        firsts = {partition: 0 for partition in adoption.end if partition not in start}
        run = ledger.intend(start=start, end=upper(start, adoption.end), firsts=firsts, by=ADOPT, at=batch.now())
    tables, address = batch.tables, batch.tables.archive(ledger.source)
    handle = delta_commits.make_table(tables, address, RECORDS_SCHEMA, bounded=BOUNDED)
    files = _files(adoption.archive_files)
    delta_commits.add_files(handle, files, lease=tables.lease(address), transaction=(APP_ID, run.number))


def _spark(batch: BatchRun, source: Source, request: AdoptRequest) -> Write:
    def write(task: RowTask, table: HistoryTable, files: list[str]) -> tuple[Written, ...]:
        def work(batches: Any) -> Any:
            return write_rows(task, batches) if request.coordinates is None else write_at_places(task, batches)

        try:
            frame = map_rows(source, table.rows(batch.session, files), request.expressions, request.coordinates)
            if request.coordinates is None:
                frame = frame.coalesce(batch.parallelism)
            else:
                check_places(source, spans(frame), task.ends, first_offsets(source))
                frame = order_by_place(frame, batch.parallelism)
            rows = frame.mapInArrow(compared(work), SCHEMA).toArrow()
        except SPARK_ERRORS as error:
            raise TaskFailed(f"table {table.name} cannot be adopted: {sentence(error)}") from error
        return all_files(rows)

    return write


def _last(files: tuple[Written, ...]) -> list[Written]:
    """The file with the highest offsets of each partition."""
    return list({file.bounds["partition"][0]: file for file in sorted(files, key=lambda file: file.bounds["offset"][1])}.values())


def _json(files: tuple[Written, ...]) -> str:
    return msgspec.json.encode(files).decode()


def _files(text: str) -> list[Written]:
    return [replace(file, bounds={name: _bounds(name, *both) for name, both in file.bounds.items()}) for file in _decode(text)]


def _bounds(name: str, low: Any, high: Any) -> tuple[Any, Any]:
    return (datetime.fromisoformat(low), datetime.fromisoformat(high)) if name == "timestamp" else (low, high)
