"""How long runs took: a journal of what each folded and in how many seconds, and what the last ones say of the next."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median
from typing import Final

import pyarrow as pa

from ledger.delta.addresses import Tables
from ledger.delta.journal import Journal

_LAST: Final = 5


@dataclass(frozen=True)
class Rate:
    """One run over one source: it read `rows` of `bytes` (as they are stored, compressed) into `views` views in `seconds`.

    `kind` is what kind of run it was: runs of different kinds do not take the same time for the same rows.
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
        """What the time grows with: reading an event costs about what folding it into one view does."""
        return self.rows * (self.views + 1)


@dataclass(frozen=True)
class Estimate:
    """About how many `seconds` a run takes, from this many `runs` before it, the largest of which read `largest` rows."""

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


def record(tables: Tables, rate: Rate) -> None:
    """Add a run. Raises Unreadable, Unwritable."""
    _journal(tables).add(lambda _: asdict(rate))


def history(tables: Tables) -> list[Rate]:
    """All runs, oldest first. Raises Unreadable."""
    names = SCHEMA.names
    return [Rate(**{name: row[name] for name in names}) for row in _journal(tables).read().rows()]


def estimate(rates: Iterable[Rate], source: str, kind: str, *, rows: int, views: int) -> Estimate | None:
    """How long a run will take, from the last runs of its source and kind; None if there are none that read anything.

    A run takes some time whatever it reads, and more for more. The first is what the smallest runs took; the second is the
    median of what the others took beyond that, for their work. Where all runs are about alike, more work takes more time in
    proportion.
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


def _journal(tables: Tables) -> Journal:
    return Journal(tables, tables.control("rates"), SCHEMA)
