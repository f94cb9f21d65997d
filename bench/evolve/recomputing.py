"""An incremental recompute of the newest part of a long history, compared with a full one, in one warm Spark session.

The history is written directly to the archive, in the form of an archive run, because the log's speed is not measured.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import Mode, Request
from tandem.batch.release.diff import diffs
from tandem.batch.runtime.session import BatchRun
from tandem.bench import archived_history, silent_duckdb
from tandem.infra.settings import Settings, Spark
from tandem.ledger.log import archive_runs
from tandem.ledger.publish import first_publication, releases
from tandem.ledger.publish.publications import Publication
from tandem.views.errors import TandemError
from tandem.views.measures.measure import Approximation
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.verify.compare import MeasureDifference
from tandem.views.view import approximations

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "web"
SOURCE: Final = "requests"
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


def _archived(batch: BatchRun, defined: Project, first: int, end: int, of: int) -> None:
    """Write these of all events into the archive."""
    span = 86_400_000_000 / of
    with silent_duckdb.connect() as engine:

        def values(low: int, high: int) -> pa.ChunkedArray:
            made = engine.sql(_MADE, params={"span": span, "first": low, "last": high}).to_arrow_table()
            return made.column("value")

        archived_history.write(batch, defined.sources[SOURCE], first, end, values)
