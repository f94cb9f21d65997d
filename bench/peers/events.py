"""The events that all contestants read: requests of pages, 1 % of them duplicates, 2 % late.

A duplicate follows its event by at most 30 000 events, and is the same bytes. A late event has a time up to an hour before that
of its neighbours. Keys follow Zipf's law: the r-th page has a share in proportion to 1/r.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from tandem.bench import silent_duckdb

DUPLICATES: Final = 0.01
LATE: Final = 0.02
_LATE_MS: Final = 3_600_000
_DISTANCE: Final = 30_000
_JITTER_MS: Final = 3_000
_USERS: Final = 50_000

_VALUE: Final = """
    '{"id":"' || id || '","at":"' || strftime("at", '%Y-%m-%dT%H:%M:%S.%gZ') || '","user":"' || "user" || '","path":"' || path
    || '","bytes":' || bytes || ',"ms":' || ms || '}'
"""

DECLARED: Final = """\
class Request(Event):
    id: str
    at: datetime
    user: str
    path: str
    bytes: int
    ms: float
"""
"""The type of the events in a project of Tandem."""

Answers: TypeAlias = dict[tuple[str, int], tuple[int, int, float]]
"""Path and start of the minute, in milliseconds since the epoch, to number of events, sum of bytes and largest duration."""


@dataclass(frozen=True)
class Shape:
    """How many events, over how many pages, from which seed; the first event is at `base`, one follows each millisecond."""

    events: int
    pages: int
    base: datetime
    seed: int = 7


def generate(shape: Shape) -> pa.Table:
    """The events in the order of the log: columns id, at (milliseconds, UTC), user, path, bytes, ms. Equal for equal shapes."""
    random, number = np.random.default_rng(shape.seed), shape.events
    weights = 1 / np.arange(1, shape.pages + 1)
    at = np.arange(number) - random.integers(0, _JITTER_MS, number)
    late = random.random(number) < LATE
    columns = {
        "id": np.arange(number),
        "at": np.where(late, at - random.integers(0, _LATE_MS, number), at),
        "user": random.integers(0, _USERS, number),
        "path": random.choice(shape.pages, number, p=weights / weights.sum()),
        "bytes": random.integers(100, 60_000, number),
        "ms": np.round(random.gamma(2.0, 30.0, number), 1),
    }
    copies = np.flatnonzero(random.random(number) < DUPLICATES)
    copies = copies[copies > 0]
    of = copies - random.integers(1, np.minimum(copies, _DISTANCE) + 1)
    # In the log's order, because an event may be the duplicate of a duplicate.
    for copy, original in zip(copies.tolist(), of.tolist(), strict=True):
        for column in columns.values():
            column[copy] = column[original]
    base = int(shape.base.timestamp() * 1000)
    events = pa.table({**columns, "at": pa.array(columns["at"] + base, pa.timestamp("ms", "UTC"))})
    # Ids look as little alike as UUIDs do: consecutive ones would compress and hash better than real ones.
    return _of(events, "format('{:016x}', hash(id)) AS id, \"at\", 'u' || \"user\" AS \"user\", '/p/' || path AS path, bytes, ms")


def values(events: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """Key (the path) and JSON value of each event, in order."""
    for batch in _of(events, f"path, {_VALUE} AS value").to_batches(50_000):
        for path, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            yield path.encode(), value.encode()


def truth(events: pa.Table) -> Answers:
    """What every contestant has to answer: events of equal id counted once, by page and minute."""
    connection = _connection(events)
    found = connection.sql("""
        SELECT path, epoch_ms(date_trunc('minute', "at")) AS minute, count(*), sum(bytes)::BIGINT, max(ms)
        FROM (SELECT DISTINCT ON (id) * FROM events) GROUP BY ALL
    """)
    return {(path, minute): (number, total, longest) for path, minute, number, total, longest in found.fetchall()}


def differing(expected: Answers, found: Answers) -> int:
    """The number of rows that one side lacks or that have other measures."""
    return sum(expected.get(row) != found.get(row) for row in expected.keys() | found.keys())


def _of(events: pa.Table, columns: str) -> pa.Table:
    """These columns of the events, in their order."""
    return pa.table(_connection(events).sql(f"SELECT {columns} FROM events").to_arrow_table())


def _connection(events: pa.Table) -> Any:
    connection = silent_duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("events", events)
    return connection
