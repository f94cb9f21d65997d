"""Estimates how much a run will read, and how long it will take, from the last runs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, rows_within, table_ranges, within_times
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.publish import rates
from tandem.ledger.publish.batch_parts import Windows
from tandem.ledger.publish.rates import Estimate, Rate, RunRates
from tandem.views.counted import counted
from tandem.views.source.source import Source

RAW: Final = "raw"
"""The kind of runs that decode the archive again."""


@dataclass(frozen=True)
class Expected:
    """The work of a run: about `rows` rows of `bytes` compressed bytes, folded into `views` views."""

    source: str
    kind: str
    views: int
    rows: int
    bytes: int
    estimate: Estimate | None

    @property
    def words(self) -> str:
        """A phrase for the progress report."""
        read = counted(self.rows, "record" if self.kind == RAW else "event")
        return f"about {read}, {size(self.bytes)}, into {counted(self.views, 'view')}; {estimate_text(self.estimate)}"

    def took(self, seconds: float, *, at: datetime) -> Rate:
        """The record of the finished run for the journal of runs."""
        return Rate(at, self.source, self.kind, self.rows, self.bytes, self.views, seconds)

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the work and the estimate; `seconds` is null if no similar run was timed."""
        about = self.estimate
        return {
            "rows": self.rows,
            "bytes": self.bytes,
            "seconds": None if about is None else round(about.seconds, 1),
            "runs": 0 if about is None else about.runs,
        }


def expected(
    tables: Tables,
    source: Source,
    decoder: str,
    *,
    kind: str,
    views: int,
    end: Position,
    start: Position = LOG_START,
    windows: Windows | None = None,
) -> Expected:
    """The work of a run of this kind over `[start, end)`, by the statistics of the table's files. Raises Unreadable.

    With `windows` only the files that may have events of these times count.
    """
    name = source.name
    address, where = (tables.archive(name), RECORDS) if kind == RAW else (tables.events(name, decoder), EVENTS)
    files = table_ranges(tables, address, where, "" if kind == RAW else source.time_column)
    if windows is not None and source.prepare is None:  # `prepare` may change event times
        files = within_times(files, *windows)
    covered = ranges(start, end, ArchiveLedger(tables, name).firsts())
    rows = rows_within(files, covered)
    stored = sum(file.size * rows_within([file], covered) // max(1, file.rows) for file in files)
    estimate = rates.estimate(RunRates(tables).history(), name, kind, rows=rows, views=views)
    return Expected(name, kind, views, rows, stored, estimate)


def size(number: int) -> str:
    """Bytes for a person."""
    value = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def estimate_text(estimate: Estimate | None) -> str:
    """An estimate for a person."""
    if estimate is None:
        return "no estimate yet, because no similar run has been timed"
    runs, rows = counted(estimate.runs, "run"), counted(estimate.largest, "row")
    return f"estimated {duration(estimate.seconds)}, from {runs} of up to {rows}"


def duration(seconds: float) -> str:
    """A length of time for a person."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
