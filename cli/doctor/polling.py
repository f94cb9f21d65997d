"""The check of what polling costs where a store charges for each request."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from tandem.cli.doctor.check import Check, FailedCheck, Finding, ok
from tandem.cli.doctor.subject import Subject
from tandem.ledger.delta.watched_table import POLL_REQUESTS, SELDOM_S
from tandem.ledger.hot.chain import LOOK_S
from tandem.ledger.publish.publications import Publications
from tandem.speed.hot.process import why_not

_DAY_MS: Final = 86_400_000
_MANY: Final = 5_000_000
"""Stores ask about 0.40 dollars for a million of the smallest requests, so this many cost 2 dollars a day."""
_JOURNALS: Final = 2
"""A server follows the publications and the gaps, and one realtime table a source."""

MANY: Final = FailedCheck(
    "warn",
    "a server may send the object store more than 5 million requests a day, and stores charge for each request",
    "set `serving.poll_ms` to {longer} or more; answers may then be older by that time",
)


def _polling(subject: Subject) -> Iterator[Finding]:
    tables, every = subject.tables, subject.settings.serving.poll_ms
    if tables.local:
        yield ok("the tables are in a folder: a poll sends no request")
        return
    live = Publications(tables).latest()
    sources = len(subject.sources if live is None else live.cuts)
    followed, beside = _JOURNALS + sources, 2 * sources  # a hot tail follows the publications and its realtime table
    hot = why_not(subject.settings) is None

    def a_day(every: int) -> int:
        """Requests, at most: hot commits may make the server poll twice in its time."""
        polls = followed / every if not hot else 2 * followed / every + beside / _hot_ms(every)
        return round(POLL_REQUESTS * polls * _DAY_MS)

    polled = f"it polls {followed} tables every {every} ms"
    if hot:
        polled = (
            f"it polls {followed} tables at most twice every {every} ms, and its hot tails {beside} every {_hot_ms(every)} ms"
        )
    if every < SELDOM_S * 1000:
        polled += f", or every {SELDOM_S:.0f} s while the server counts the whole log"
    found = f"a server sends up to about {a_day(every) / 1e6:.1f} million requests a day: {polled}"
    times = range(1, _DAY_MS)
    longer = times[bisect_left(times, x=True, key=lambda one: a_day(one) <= _MANY)]
    yield ok(found) if a_day(every) <= _MANY else MANY.found(found, longer=longer)


def _hot_ms(every: int) -> int:
    return max(every, round(LOOK_S * 1000))


CHECKS: Final = (
    Check(
        "polling",
        _polling,
        FailedCheck("fail", "the definitions or the publications cannot be read", "see `definitions` and `tables`"),
        (MANY,),
        needs=("state",),
    ),
)
