"""An incremental recompute of the newest part of a long history, compared with a full one, in one warm Spark session.

The history is written directly to the archive, in the form of an archive run, because the log's speed is not measured.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from batch.archive.decode_runs import decode_archived
from batch.recompute import recompute
from batch.recompute.plan import Mode, Request
from batch.release.diff import diffs
from batch.runtime import delta_commits
from batch.runtime.session import BatchRun
from infra.settings import Settings, Spark
from ledger.files.file_ranges import RECORDS
from ledger.log import archive_runs
from ledger.log.positions import LOG_START, Position
from ledger.publish import first_publication, releases
from ledger.publish.publications import Publication
from views.errors import TandemError
from views.measures.measure import Approximation
from views.project import project
from views.project.project import Project
from views.source.source import RECORDS_SCHEMA
from views.verify.compare import MeasureDifference
from views.view import approximations

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "web"
SOURCE: Final = "requests"
_TOPIC: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_PARTITIONS: Final = 2
_PIECE: Final = 500_000
_START: Final = datetime(2026, 11, 1, tzinfo=UTC)
_ONE_IN: Final = 24
"""The share of the history that is new: an hour of a day."""

# As in examples/web: a few users and pages have most of the requests, and one in a thousand is sent twice.
_MADE: Final = """
SELECT '{"request_id":"' || i || '","at":"' || strftime(TIMESTAMP '2026-11-01' + to_microseconds(moment), '%Y-%m-%dT%H:%M:%S.%f')
    || '+00:00","user":"u' || (20000 * pow(dice, 3))::BIGINT || '","path":"/' || ['shop', 'blog', 'help', 'api'][1 + i % 4]
    || '/' || (500 * pow(other, 2))::BIGINT || '","status":' || [200, 200, 200, 200, 304, 404, 500][1 + (hash(i, 3) % 7)::BIGINT]
    || ',"bytes":' || (100000 * other)::BIGINT || ',"ms":' || round(1 + 200 * dice * dice, 3) || '}' AS value
FROM (
    SELECT i, (i * $span)::BIGINT + (hash(i, 1) % 5000000)::BIGINT AS moment,
        (hash(i, 4) % 1000000) / 1e6 AS dice, (hash(i, 5) % 1000000) / 1e6 AS other
    FROM (SELECT CASE WHEN n % 1000 = 999 THEN n - 500 ELSE n END AS i FROM range($first, $last) AS r(n))
)
"""


@dataclass(frozen=True)
class Recomputes:
    """Seconds of a full run over `events`, and of an incremental one whose part of them was new; equal if no answer differs."""

    events: int
    new: int
    full_s: float
    incremental_s: float
    equal: bool

    @property
    def ratio(self) -> float:
        """The duration of the incremental run, divided by that of the full one."""
        return self.incremental_s / self.full_s


def measure(
    folder: Path, events: int, *, cores: int, memory: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> Recomputes:
    """Write the history, recompute its old part, then the new part, then everything. Raises TandemError."""
    settings = Settings(state=str(folder), spark=Spark(master=f"local[{cores}]", driver_memory=memory))
    batch = BatchRun(settings, "bench", lambda: datetime.now(UTC), lambda _: None, environ)
    defined = project.load(EXAMPLE)
    first_publication.live(batch.tables, lambda: defined, by="bench", at=batch.now())
    old = events - events // _ONE_IN
    say(f"writing {old} events into the archive")
    _archived(batch, defined, 0, old, events)
    say("recomputing them")
    _timed(batch, defined, "full")
    say(f"writing {events - old} more")
    _archived(batch, defined, old, events, events)
    incremental, grown = _timed(batch, defined, "incremental")
    say(f"incremental: {incremental:.1f} s")
    full, whole = _timed(batch, defined, "full")
    say(f"full: {full:.1f} s")
    return Recomputes(events, events - old, full, incremental, _equal(batch, defined, grown, whole))


def _timed(batch: BatchRun, defined: Project, mode: Mode) -> tuple[float, Publication]:
    begun = time.monotonic()
    done = recompute.run(batch, lambda: defined, Request(mode=mode))
    took = time.monotonic() - begun
    end, cut = archive_runs.archived(batch.tables, SOURCE), done.publication.cuts[SOURCE]
    if cut != end:
        raise TandemError(f"the recompute stopped at {cut}, and the archive ends at {end}")
    return took, done.publication


def _equal(batch: BatchRun, defined: Project, one: Publication, other: Publication) -> bool:
    """Whether both have the same rows, equal exact measures, and estimates within their stated errors."""
    release = releases.load(batch.tables, one.release)
    found = diffs(batch, (release, one), (release, other), list(defined.views))
    return all(
        diff.matched
        and not diff.only_old
        and not diff.only_new
        and all(_as_stated(each, approximations(defined.views[view]).get(name)) for name, each in diff.measures.items())
        for view, diff in found.items()
    )


def _as_stated(found: MeasureDifference, known: Approximation | None) -> bool:
    """Whether no answer differs, or of an estimate no more of them by more than its error than its confidence leaves."""
    return not found.unequal if known is None else found.share <= 1 - (known.confidence or 1)


def _archived(batch: BatchRun, defined: Project, first_event: int, end: int, of: int) -> None:
    """Write the files of an archive run for these events, decoded; all events are of one day."""
    tables, source = batch.tables, defined.sources[SOURCE]
    known = archive_runs.runs(tables, SOURCE)
    start = known[-1].end if known else LOG_START
    each = (end - first_event) // _PARTITIONS
    to = Position.of({(_TOPIC, number): start.get((_TOPIC, number), 0) + each for number in range(_PARTITIONS)})
    run = archive_runs.intend(tables, SOURCE, start=start, end=to, by="bench", at=batch.now())
    handle = delta_commits.make_table(tables, tables.archive(SOURCE), RECORDS_SCHEMA, bounded=RECORDS.names)
    span = 86_400_000_000 / of

    def pieces() -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            with duckdb.connect() as engine:
                for number in range(_PARTITIONS):
                    offset = start.get((_TOPIC, number), 0)
                    for low in range(0, each, _PIECE):
                        rows = min(_PIECE, each - low)
                        at = first_event + number * each + low
                        made = engine.sql(_MADE, params={"span": span, "first": at, "last": at + rows}).to_arrow_table()
                        yield from _records(number, offset + low, made.column("value")).to_batches()

        return pa.RecordBatchReader.from_batches(RECORDS_SCHEMA, batches())

    properties = CommitProperties(app_transactions=[Transaction(archive_runs.APP_ID, run.number)], max_commit_retries=0)
    write_deltalake(handle, pieces(), mode="append", commit_properties=properties)
    archive_runs.check(tables, SOURCE, run.number, at=batch.now())
    decode_archived(batch, releases.load(tables, 1), source)


def _records(partition: int, offset: int, values: pa.ChunkedArray) -> pa.Table:
    rows = len(values)
    return pa.table(
        [
            pa.repeat(_TOPIC, rows),
            pa.repeat(pa.scalar(partition, pa.int32()), rows),
            pa.array(range(offset, offset + rows), pa.int64()),
            pa.repeat(pa.scalar(_START + timedelta(days=1), RECORDS_SCHEMA.field("timestamp").type), rows),
            pa.repeat(pa.scalar(0, pa.int32()), rows),
            pa.nulls(rows, pa.binary()),
            values.cast(pa.binary()),
            pa.nulls(rows, RECORDS_SCHEMA.field("headers").type),
        ],
        RECORDS_SCHEMA,
    )
