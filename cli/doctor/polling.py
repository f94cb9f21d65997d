"""The check of what polling costs where a store charges for each request."""

from collections.abc import Iterator
from typing import Final

from cli.doctor.check import Check, Finding, Problem, ok
from cli.doctor.subject import Subject
from ledger.delta.watched_table import POLL_REQUESTS
from ledger.publish import publications

_DAY_MS: Final = 86_400_000
_MANY: Final = 5_000_000
"""Stores ask about 0.40 dollars for a million of the smallest requests, so this many cost 2 dollars a day."""
_JOURNALS: Final = 2
"""A server follows the publications and the gaps, and one realtime table a source."""

MANY: Final = Problem(
    "warn",
    "a server polls the object store more than 5 million times a day, and stores charge for each request",
    "set `serving.poll_ms` to {longer} or more; answers may then be older by that time",
)


def _polling(subject: Subject) -> Iterator[Finding]:
    tables, every = subject.tables, subject.settings.serving.poll_ms
    if tables.local:
        yield ok("the tables are in a folder: a poll sends no request")
        return
    live = publications.latest(tables)
    followed = _JOURNALS + len(subject.sources if live is None else live.cuts)
    a_day = POLL_REQUESTS * followed * _DAY_MS // every
    found = f"a server sends about {a_day / 1e6:.1f} million requests a day: it polls {followed} tables every {every} ms"
    yield ok(found) if a_day <= _MANY else MANY.found(found, longer=-(-every * a_day // _MANY))


CHECKS: Final = (
    Check(
        "polling",
        _polling,
        Problem("fail", "the definitions or the publications cannot be read", "see `definitions` and `tables`"),
        (MANY,),
        needs=("state",),
    ),
)
