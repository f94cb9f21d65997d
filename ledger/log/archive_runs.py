"""The archive's ledger: the range that each run copies, and the position of each table.

A run's range is recorded, as an *intent*, before anything is written. Each write carries the run's number as its Delta
transaction version (`txnAppId` APP_ID, `txnVersion` the run), in the same commit as its rows. So a table holds exactly the runs
up to its transaction version, whenever a run was killed; to finish is to do the runs that it lacks. delta-rs commits a version
that is not higher too, so compare with `progress` before the write.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, JournalSnapshot, Row
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Offsets, Partition

APP_ID: Final = "tandem.archive"
"""The Delta application id of every write to archive, events and quarantine."""
IMPORT: Final = "import"
"""The `by` of imports: runs whose records and gaps come from another installation, and not from the log."""
ADOPT: Final = "adopt"
"""The `by` of adoptions: runs whose records are rows of a table."""


class NotNext(TandemError, code="archive-run-not-next"):
    """An archive run does not start where the one before it ends, or that one is not finished."""


@dataclass(frozen=True)
class ArchiveRun:
    """An archive run: it copies `[start, end)` of a source. `firsts` has first offsets of partitions that `start` lacks."""

    number: int
    start: Position
    end: Position
    firsts: Offsets = field(hash=False)
    at: datetime
    by: str

    @property
    def imported(self) -> bool:
        """Whether the run's records came from another installation or from a table, and not from the log."""
        return self.by in (IMPORT, ADOPT)


@dataclass(frozen=True)
class ArchiveProgress:
    """The number of the last run that each table holds; 0 if none."""

    archive: int
    events: int
    quarantine: int

    @property
    def least(self) -> int:
        """The last run that all three hold."""
        return min(self.archive, self.events, self.quarantine)


@dataclass(frozen=True)
class Summary:
    """What a finished run found. `newest` is the append time of its newest event; None without events."""

    run: int
    counts: Counts
    newest: datetime | None
    at: datetime


RUNS: Final = pa.schema(
    [
        ("start_position", pa.string()),
        ("end_position", pa.string()),
        ("firsts", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
    ]
)
SUMMARIES: Final = pa.schema(
    [
        ("run", pa.int64()),
        ("counts", pa.string()),
        ("newest", pa.timestamp("us", "UTC")),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


TOPICS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
"""The name of each topic id when it was first read."""
FIRSTS: Final = pa.schema([("firsts", pa.string()), ("at", pa.timestamp("us", "UTC"))])
"""The first offsets of partitions when Tandem first read them."""
CHECKED: Final = pa.schema([("run", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
"""The archive runs whose losses are recorded as gaps."""


@dataclass
class ArchiveLedger:
    """The ledger of one source's archive. Its journals are opened once: a read polls for what is new."""

    tables: Tables
    source: str

    def __post_init__(self) -> None:
        tables, source = self.tables, self.source
        self._runs = Journal(tables, tables.control("runs", source), RUNS)
        self._topics = Journal(tables, tables.control("topics", source), TOPICS)
        self._firsts = Journal(tables, tables.control("firsts", source), FIRSTS)
        self._checked = Journal(tables, tables.control("checked", source), CHECKED)
        self._finished: dict[str, Journal] = {}

    def name_topics(self, topics: Mapping[str, str], *, at: datetime) -> None:
        """Record the names of topics, ids by name in the order of the source; recorded names stay.

        A process that reads a topic first calls this before it counts anything, so all processes number generations alike.
        """

        def row(topic: str, name: str) -> Callable[[JournalSnapshot], Row | None]:
            def derive(snapshot: JournalSnapshot) -> Row | None:
                there = any(stored["topic"] == topic for stored in snapshot.rows())
                return None if there else {"topic": topic, "name": name, "at": at}

            return derive

        known = self.topic_names()
        for name, topic in topics.items():
            if topic not in known:
                self._topics.add(row(topic, name))

    def topic_names(self) -> dict[str, str]:
        """The recorded names of topics by id, in the order in which they were recorded."""
        return {row["topic"]: row["name"] for row in self._topics.read().rows()}

    def record_firsts(self, firsts: Offsets, *, at: datetime) -> dict[Partition, int]:
        """Record the first offsets of partitions, also of empty ones; recorded offsets stay. Returns what is recorded of them.

        A process that reads the log calls this before it counts or archives anything, and continues with what it returns: another
        process may have recorded earlier offsets meanwhile. From then on a deleted record is a loss.
        """
        known = self._looked_at()

        def row(snapshot: JournalSnapshot) -> Row | None:
            known.update(_recorded(snapshot.rows()))
            new = {partition: offset for partition, offset in firsts.items() if partition not in known}
            return {"firsts": _written(new), "at": at} if new else None

        if not firsts.keys() <= known.keys():
            self._firsts.add(row)
        return {partition: min(offset, known.get(partition, offset)) for partition, offset in firsts.items()}

    def intend(self, *, start: Position, end: Position, firsts: Offsets | None = None, by: str, at: datetime) -> ArchiveRun:
        """Record the next run before anything of it is written. Raises NotNext unless `start` is where the last one ends."""
        if start == end or not start.at_or_below(end):
            raise NotNext(
                f"[{start}, {end}) is not a range that can be archived for source {self.source!r}: it must end above its start"
            )

        def row(snapshot: JournalSnapshot) -> Row:
            newest = snapshot.newest()
            last = LOG_START if newest is None else _run(newest).end
            if start != last:
                raise NotNext(f"an archive run of source {self.source!r} cannot start at {start}: the last one ends at {last}")
            return {
                "start_position": json.dumps(start.to_json()),
                "end_position": json.dumps(end.to_json()),
                "firsts": _written(firsts or {}),
                "at": at,
                "by": by,
            }

        stored = self._runs.add(row)
        assert stored is not None  # `row` always makes one
        return _run(stored)

    def runs(self) -> list[ArchiveRun]:
        """All recorded runs of a source in order; each starts where the one before it ends."""
        return [_run(row) for row in self._runs.read().rows()]

    def progress(self, decoder: str) -> ArchiveProgress:
        """The progress of the archive, and of events and quarantine under this decoder fingerprint. Raises Unreadable."""
        return ArchiveProgress(
            archive=self._archived_run(),
            events=_reached(self.tables, self.tables.events(self.source, decoder)),
            quarantine=_reached(self.tables, self.tables.quarantine(self.source, decoder)),
        )

    def end(self, decoder: str) -> Position:
        """The position below which archive, events and quarantine are complete and counted."""
        finished = {summary.run for summary in self.summaries(decoder)}
        reached = LOG_START
        for run in self.runs():
            if run.number not in finished:
                break
            reached = run.end
        return reached

    def archived(self) -> Position:
        """The position that the archive table has reached, decoded or not."""
        reached = self._archived_run()
        return next((run.end for run in self.runs() if run.number == reached), LOG_START)

    def check(self, run: int, *, at: datetime) -> None:
        """Record that every offset of an archive run is archived, in a recorded gap, or a harmless hole. Idempotent."""

        def row(snapshot: JournalSnapshot) -> Row | None:
            return None if any(stored["run"] == run for stored in snapshot.rows()) else {"run": run, "at": at}

        self._checked.add(row)

    def claim(self) -> None:
        """Fence the intents and checks of earlier holders of the archive's lease, if this process has it.

        Raises Fenced, LeaseLost, Unwritable.
        """
        self._runs.claim()
        self._checked.claim()

    def unchecked(self) -> ArchiveRun | None:
        """The archive's last run if its losses are not recorded as gaps yet; else None.

        A run begins only after the one before it was checked. An import takes its gaps from the manifest and needs no check.
        """
        reached = self._archived_run()
        last = next((run for run in self.runs() if run.number == reached), None)
        if last is None or last.imported or any(row["run"] == reached for row in self._checked.read().rows()):
            return None
        return last

    def accounted(self) -> Position:
        """The position below which every offset that the log had is archived or in a recorded gap.

        It lies below `archived` after a run that was killed between its commit and its gaps, until the next run.
        """
        left = self.unchecked()
        return self.archived() if left is None else left.start

    def unwritten(self) -> list[ArchiveRun]:
        """The recorded runs that the archive table lacks."""
        reached = self._archived_run()
        return [run for run in self.runs() if run.number > reached]

    def unfinished(self, decoder: str) -> list[ArchiveRun]:
        """The recorded runs that are not finished under this decoder fingerprint."""
        finished = {summary.run for summary in self.summaries(decoder)}
        return [run for run in self.runs() if run.number not in finished]

    def undecoded(self, decoder: str) -> list[ArchiveRun]:
        """The unfinished runs that are checked: what they hold is in the archive, and needs no broker."""
        reached, left = self._archived_run(), self.unchecked()
        checked = reached if left is None else left.number - 1
        return [run for run in self.unfinished(decoder) if run.number <= checked]

    def finish(self, decoder: str, run: int, *, counts: Counts, newest: datetime | None, at: datetime) -> None:
        """Record what a run found. Idempotent. Raises NotNext unless all three tables hold the run."""
        there = self.progress(decoder)
        if there.least < run:
            raise NotNext(
                f"archive run {run} of source {self.source!r} is incomplete: archive, events and quarantine contain {there}"
            )

        def row(snapshot: JournalSnapshot) -> Row | None:
            if any(stored["run"] == run for stored in snapshot.rows()):
                return None
            return {"run": run, "counts": json.dumps(counts.to_json()), "newest": newest, "at": at}

        self._summaries(decoder).add(row)

    def summaries(self, decoder: str) -> list[Summary]:
        """What the finished runs found under this decoder fingerprint, in order of run."""
        rows = self._summaries(decoder).read().rows()
        found = [Summary(row["run"], Counts.from_json(json.loads(row["counts"])), row["newest"], row["at"]) for row in rows]
        return sorted(found, key=lambda summary: summary.run)

    def firsts(self) -> dict[Partition, int]:
        """The first offset that the log ever had of each partition: the least that was recorded.

        The log may start later now; the offsets in between are archived or lost.
        """
        found = self._looked_at()
        for run in self.runs():
            for partition, offset in run.firsts.items():
                found[partition] = min(offset, found.get(partition, offset))
        return found

    def generations(self) -> tuple[str, ...]:
        """The ids of the source's topics in log order, which is that of `name_topics` and never changes.

        A topic that was created again is archived after all of the one before it.
        """
        return tuple(self.topic_names())

    def _archived_run(self) -> int:
        return _reached(self.tables, self.tables.archive(self.source))

    def _looked_at(self) -> dict[Partition, int]:
        return _recorded(self._firsts.read().rows())

    def _summaries(self, decoder: str) -> Journal:
        if decoder not in self._finished:
            self._finished[decoder] = Journal(self.tables, self.tables.control("summaries", self.source, decoder), SUMMARIES)
        return self._finished[decoder]


def _reached(tables: Tables, address: str) -> int:
    handle = delta_tables.open_table(tables, address)
    return 0 if handle is None else handle.transaction_version(APP_ID) or 0


def _recorded(rows: Iterable[Mapping[str, Any]]) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    for row in rows:
        found |= _read(row["firsts"])
    return found


def _run(row: Mapping[str, Any]) -> ArchiveRun:
    return ArchiveRun(
        number=row["number"],
        start=Position.from_json(json.loads(row["start_position"])),
        end=Position.from_json(json.loads(row["end_position"])),
        firsts=_read(row["firsts"]),
        at=row["at"],
        by=row["by"],
    )


def _written(firsts: Offsets) -> str:
    return json.dumps([[topic, number, offset] for (topic, number), offset in sorted(firsts.items())])


def _read(written: str) -> dict[Partition, int]:
    return {(topic, number): offset for topic, number, offset in json.loads(written)}
