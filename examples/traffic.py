"""The shape of sample traffic: the times of visits, their delays, and which events arrive malformed or twice.

Every stream here is endless and depends only on its seed, so that the first n samples of a seed are the same whatever n is: a
stopped generator can continue, and expected answers can be computed again from a seed and a number.

Plain Python on purpose: the check of the platform shares no code with it.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import TypeVar

Name = TypeVar("Name")

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

LATE_BY_SECONDS = 0.09
LATE_BY_HOURS = 0.01
MALFORMED = 0.002

BURST_EVERY = 5_000
BURST_FROM = 3_000
BURST_LENGTH = 100
BLOCK = 1_000


def zipf(random: Random, names: Sequence[Name], exponent: float = 1.1) -> Iterator[Name]:
    """Endless draws in which the frequency of the k-th name is proportional to k ** -exponent."""
    weights = list(accumulate((k + 1) ** -exponent for k in range(len(names))))
    while True:
        yield from random.choices(names, cum_weights=weights, k=BLOCK)


def event_times(random: Random, start: int, per_second: float) -> Iterator[int]:
    """Event times in the order of sending, in microseconds since 1970.

    A clock runs from `start` on, with `per_second` events in a second on average, up to six tenths more in the afternoon and
    fewer at night. Most events have its time; 9 % are 1 to 30 seconds behind it, 1 % one minute to six hours. Of every 5 000
    events 100 in a row are one day old, as if a disconnected server delivered its backlog.
    """
    clock = float(start)
    step = SECOND / per_second
    position = 0
    while True:
        # The rate changes slowly: one value for a block of events is near enough.
        pace = step / (1 + 0.6 * math.sin(2 * math.pi * (clock % DAY / DAY - 0.375)))
        for draw in (random.random() for _ in range(BLOCK)):
            clock += pace
            when = int(clock)
            in_cycle = position % BURST_EVERY
            if BURST_FROM <= in_cycle < BURST_FROM + BURST_LENGTH:
                when -= DAY
            elif draw < LATE_BY_SECONDS:
                when -= SECOND + int(draw / LATE_BY_SECONDS * 29 * SECOND)
            elif draw < LATE_BY_SECONDS + LATE_BY_HOURS:
                when -= int(MINUTE * 360 ** ((draw - LATE_BY_SECONDS) / LATE_BY_HOURS))
            yield when
            position += 1


def response_bytes(random: Random) -> Iterator[int]:
    """Endless sizes: many small, few very large."""
    while True:
        for _ in range(BLOCK):
            yield int(400 * random.random() ** -0.7)


def broken(random: Random, kinds: int, share: float = MALFORMED) -> Iterator[int | None]:
    """For each sample None, or for a `share` of them the kind of fault: the kinds 0 to `kinds` - 1 in turn."""
    turn = 0
    while True:
        if random.random() < share:
            yield turn % kinds
            turn += 1
        else:
            yield None
