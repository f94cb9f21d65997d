"""The streams that all contestants read: advertisements seen and clicked, and bids for them; 2 % of each are late.

A late event comes up to half an hour after its time, later than any watermark of the contestants waits. Most clicks follow an
event of the same user and advertisement by up to ten minutes.

The last events of each topic are of the days after: first a bid, a sight and a click of some more advertisements, whose
answers say that a system has come to the end; then others, so that watermarks pass these. No answer that is compared has them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tandem.bench import silent_duckdb

SEEN: Final = "seen"
CLICKS: Final = "clicks"
ACTS: Final = "acts"
BIDS: Final = "bids"
END: Final = "end"
LAST: Final = "last"
WINDOW_MS: Final = 3_600_000
WITHIN_MS: Final = 600_000
LATE: Final = 0.02
_LATE_MS: Final = 1_800_000
_JITTER_MS: Final = 3_000
_DAY_MS: Final = 86_400_000
_CLOSING: Final = 64
"""The number of advertisements of the next days, with which every partition gets some."""

Row = tuple[str, int]
"""The advertisement and the start of the hour, in milliseconds since the epoch."""

Answers = dict[Row, tuple[int, ...]]


@dataclass(frozen=True)
class Streams:
    """How many advertisements are seen, in how many hours from `base` on, of how many, from which seed."""

    sights: int
    ads: int
    base: datetime
    hours: int = 4
    seed: int = 7


def generate(shape: Streams) -> dict[str, pa.Table]:
    """Each topic's events in the order of its log: at (milliseconds since the epoch), kind, ad, user, price."""
    random, number, span = np.random.default_rng(shape.seed), shape.sights, shape.hours * WINDOW_MS
    base = int(shape.base.timestamp() * 1000) // WINDOW_MS * WINDOW_MS
    weights = 1 / np.arange(1, shape.ads + 1)
    at = np.sort(random.integers(0, span, number)) // 2 * 2  # No click is at the time of a sight.
    ad = random.choice(shape.ads, number, p=weights / weights.sum())
    user = random.integers(0, max(1, number // 20), number)
    clicked = np.flatnonzero(random.random(number) < 0.25)
    bids = max(shape.ads, number // 20)
    bid_ad = np.concatenate((np.arange(shape.ads), random.integers(0, shape.ads, bids - shape.ads)))
    bid_at = np.concatenate((np.zeros(shape.ads, np.int64), np.sort(random.integers(1, span, bids - shape.ads))))
    columns: dict[str, list[Any]] = {
        SEEN: [at, np.full(number, SEEN), ad, user, np.zeros(number, np.int64)],
        CLICKS: [
            at[clicked] + random.integers(1_000, WITHIN_MS + 60_000, len(clicked)) // 2 * 2 + 1,
            np.full(len(clicked), "click"),
            ad[clicked],
            user[clicked],
            np.zeros(len(clicked), np.int64),
        ],
        BIDS: [bid_at, np.full(bids, "bid"), bid_ad, np.zeros(bids, np.int64), random.integers(1, 500, bids)],
    }
    columns[ACTS] = [np.concatenate(pair) for pair in zip(columns[SEEN], columns[CLICKS], strict=True)]
    last = span + 2 * WINDOW_MS
    kinds = {
        SEEN: ((SEEN, 2_000),),
        CLICKS: (("click", 3_001),),
        BIDS: (("bid", 1_000),),
        ACTS: ((SEEN, 2_000), ("click", 3_001)),
    }
    return {
        topic: pa.concat_tables(
            [
                _in_log_order(random, columns[topic], base),
                *(_closing(base + last + _DAY_MS + after, kind, END) for kind, after in of),
                _closing(base + last + 2 * _DAY_MS, "last", LAST),
            ]
        )
        for topic, of in kinds.items()
    }


def _in_log_order(random: np.random.Generator, columns: list[Any], base: int) -> pa.Table:
    """Events in the order in which they arrive, then those that let watermarks pass."""
    at, kind, ad, user, price = columns
    arrival = at + random.integers(0, _JITTER_MS, len(at))
    late = (random.random(len(at)) < LATE) & (at > 0)  # every advertisement has its first bid in time
    arrival = np.where(late, arrival + random.integers(60_000, _LATE_MS, len(at)), arrival)
    order = np.argsort(arrival, kind="stable")
    names = np.char.add("ad", ad.astype(str))
    return pa.table({"at": at[order] + base, "kind": kind[order], "ad": names[order], "user": user[order], "price": price[order]})


def _closing(at: int, kind: str, ad: str) -> pa.Table:
    """Events of one time, each of another advertisement."""
    numbers = np.arange(_CLOSING)
    ones = np.ones(_CLOSING, np.int64)
    columns = {"at": ones * at, "kind": np.full(_CLOSING, kind), "ad": np.char.add(ad, numbers.astype(str))}
    return pa.table({**columns, "user": numbers, "price": ones})


def values(events: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """Key (the advertisement) and JSON value of each event, in order."""
    sql = """
        SELECT ad, '{"at":"' || strftime(epoch_ms("at"), '%Y-%m-%dT%H:%M:%S.%gZ') || '","kind":"' || kind || '","ad":"' || ad
            || '","user":' || "user" || ',"price":' || price || '}' FROM events
    """
    for batch in _connection({"events": events}).sql(sql).to_arrow_table().to_batches(50_000):
        for ad, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            yield ad.encode(), value.encode()


def truth(sql: str, streams: dict[str, pa.Table]) -> Answers:
    """The answer of a statement of DuckDB over all events: advertisement, start of the hour, and measures."""
    return answers(_connection(streams).sql(sql).fetchall())


def answers(rows: Any) -> Answers:
    """Rows of an answer; those of the events that let watermarks pass do not count."""
    return {(ad, int(w)): tuple(int(value or 0) for value in measures) for ad, w, *measures in rows if not ad.startswith(LAST)}


def at_the_end(shown: Answers, counts: int) -> bool:
    """Whether a system has counted the last events of each partition of each topic, which the first `counts` measures count."""
    return sum(ad.startswith(END) and all(measures[:counts]) for (ad, _), measures in shown.items()) == _CLOSING


def differing(expected: Answers, shown: Answers) -> int:
    """The number of rows that one side lacks or that have other measures."""
    return sum(expected.get(row) != shown.get(row) for row in expected.keys() | shown.keys())


def _connection(tables: dict[str, pa.Table]) -> Any:
    connection = silent_duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, table in tables.items():
        connection.register(name, table)
    return connection
