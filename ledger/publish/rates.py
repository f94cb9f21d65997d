"""A journal of how long runs took, and an estimate of the next run from the last ones."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from statistics import median
from typing import Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal

_LAST: Final = 5


@dataclass(frozen=True)
class Rate:
    """One run over one source: it read `rows` rows, `bytes` compressed bytes, into `views` views in `seconds` seconds.

    Runs of different kinds take different times for the same rows.
    """

    at: datetime
    source: str
    kind: str
    rows: int
    bytes: int
    views: int
    seconds: float

    @property
    def work(self) -> int:
        """The run's work: reading an event costs about as much as folding it into one view."""
        return self.rows * (self.views + 1)


@dataclass(frozen=True)
class Estimate:
    """The estimated `seconds` of a run, from `runs` earlier runs, the largest of which read `largest` rows."""

    seconds: float
    runs: int
    largest: int


SCHEMA: Final = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("source", pa.string()),
        ("kind", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("views", pa.int64()),
        ("seconds", pa.float64()),
    ]
)


@dataclass
class RunRates:
    """How long runs took. Their journal is opened once: a read polls for what is new."""

    tables: Tables
    journal: Journal = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.tables, self.tables.control("rates"), SCHEMA)

    def record(self, rate: Rate) -> None:
        """Add a run. Raises Unreadable, Unwritable."""
        self.journal.add(lambda _: asdict(rate))

    def history(self) -> list[Rate]:
        """All runs, oldest first. Raises Unreadable."""
        names = SCHEMA.names
        return [Rate(**{name: row[name] for name in names}) for row in self.journal.read().rows()]


def estimate(rates: Iterable[Rate], source: str, kind: str, *, rows: int, views: int) -> Estimate | None:
    """Estimate how long a run will take from the last runs of its source and kind; None if none of them read anything.

    The estimate is a fixed time plus a time proportional to the work. The fixed time is the median of the smallest runs; the rate
    is the median, over the larger runs, of the additional time by the additional work. If all runs are of similar size, the
    estimate is proportional to the work, and at least what they took.
    """
    last = [rate for rate in rates if (rate.source, rate.kind) == (source, kind) and rate.rows][-_LAST:]
    if not last:
        return None
    work = rows * (views + 1)
    return Estimate(_seconds(last, work), len(last), max(rate.rows for rate in last))


def _seconds(last: Sequence[Rate], work: int) -> float:
    least = min(rate.work for rate in last)
    small, larger = ([rate for rate in last if (rate.work >= 2 * least) == much] for much in (False, True))
    fixed = median(rate.seconds for rate in small)
    if not larger:
        return fixed * max(1.0, work / median(rate.work for rate in small))
    each = median(max(0.0, rate.seconds - fixed) / (rate.work - least) for rate in larger)
    return fixed + each * max(0, work - least)
