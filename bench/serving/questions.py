"""The questions to every side, their number, and their durations."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from tandem.bench.serving.published import page

MANY: Final = 1_000
"""Keys of a look-up, about: each of a thousand at random once."""
TURNS: Final = 20
Asks: TypeAlias = Sequence[Callable[[], object]]
Questions: TypeAlias = tuple[Asks, Asks]
"""For single rows, and for many keys at once."""


@dataclass(frozen=True)
class ServingScale:
    """The keys of each view, and how often each question is asked: one row and many keys of Tandem, both of DuckDB.

    `commits` are those of which is watched how soon they are counted.
    """

    keys: tuple[int, ...]
    rows: int
    lookups: int
    duckdb: int
    commits: int


FULL: Final = ServingScale((100_000, 1_000_000, 10_000_000), rows=20_000, lookups=100, duckdb=30, commits=200)
QUICK: Final = ServingScale((20_000, 200_000), rows=3_000, lookups=30, duckdb=10, commits=40)


@dataclass(frozen=True)
class QuestionTimes:
    """Seconds of one question, repeated many times: the median and the 99th percentile."""

    p50: float
    p99: float


def questions(keys: int, number: int) -> list[str]:
    """This many pages at random, the same each time."""
    return [page(one) for one in np.random.default_rng(number + keys).integers(0, keys, number).tolist()]


def many(keys: int, number: int) -> list[list[str]]:
    """For this many look-ups their pages, each once: about MANY of N keys, each time others."""
    dice = np.random.default_rng(keys)
    return [[page(one) for one in np.unique(dice.integers(0, keys, MANY)).tolist()] for _ in range(number)]


def timed(asks: Asks, *, pause_s: float = 0.0) -> QuestionTimes:
    """How long each of some questions takes, so long after the one before; the first is asked once before."""
    asks[0]()  # what is made at first use
    return asked([*_spent(asks, pause_s)])


def by_turns(sides: Sequence[Asks]) -> list[float]:
    """The median of the seconds that each side's questions take, asked in TURNS turns; the first of each is asked once before."""
    seconds: list[list[float]] = [[] for _ in sides]
    for asks in sides:
        asks[0]()
    for turn in range(TURNS):
        for found, asks in zip(seconds, sides, strict=True):
            found.extend(_spent(asks[turn::TURNS]))
    return [asked(found).p50 for found in seconds]


def asked(seconds: Sequence[float]) -> QuestionTimes:
    """Their median and 99th percentile."""
    return QuestionTimes(*(float(one) for one in np.percentile(seconds, (50, 99))))


def numbered(answers: Iterable[tuple[int, int]]) -> int:
    """A sum over hits and bytes of pages that tells which pages they are of, however often those were requested."""
    return sum(int(of_bytes) // int(hits) for hits, of_bytes in answers)


def _spent(asks: Asks, pause_s: float = 0.0) -> Iterator[float]:
    for ask in asks:
        time.sleep(pause_s)
        start = time.perf_counter()
        ask()
        yield time.perf_counter() - start
