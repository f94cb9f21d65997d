"""When a part is started, restarted and given up: a state machine whose clock is an argument.

    waiting -> starting -> running        a part that starts
    starting, running -> waiting          a failure: the next start is 1, 2, 4, ... times `first_s` away, at most `longest_s`
    starting, running -> given up         too many failures in a row
    given up -> waiting                   a new request for it

A failure stays "in a row" until the part has run for `settled_s` without one. Times are seconds of a clock that never steps back.
"""

from dataclasses import dataclass, replace
from typing import Final

from tandem.infra.settings import SupervisorSettings
from tandem.infra.supervision.record import State

_DOUBLINGS: Final = 30
"""A larger power of two changes nothing, and may be no float."""


@dataclass(frozen=True)
class RestartBounds:
    """The bounds of restarts; a part is given up after `failures` failures in a row."""

    first_s: float
    longest_s: float
    failures: int
    settled_s: float


@dataclass(frozen=True)
class RestartState:
    """The state of a part, `since` when; `due` is the time of the next start while it waits; `failures` are those in a row."""

    state: State = "waiting"
    since: float = 0.0
    due: float = 0.0
    failures: int = 0


def terms(settings: SupervisorSettings) -> RestartBounds:
    """The bounds in the settings."""
    return RestartBounds(settings.restart_s, settings.longest_restart_s, settings.failures, settings.settled_s)


def pause(failures: int, terms: RestartBounds) -> float:
    """Seconds between this many failures in a row and the next start."""
    return float(min(terms.first_s * 2 ** min(failures - 1, _DOUBLINGS), terms.longest_s))


def may_start(standing: RestartState, *, now: float) -> bool:
    """Whether it is time to start the part."""
    return standing.state == "waiting" and now >= standing.due


def started(standing: RestartState, *, now: float) -> RestartState:
    """Its process has been started."""
    return replace(standing, state="starting", since=now)


def ready(standing: RestartState, *, now: float) -> RestartState:
    """It has become ready."""
    return replace(standing, state="running", since=now)


def settled(standing: RestartState, terms: RestartBounds, *, now: float) -> RestartState:
    """Its failures are forgotten once it has run long enough."""
    if standing.failures and standing.state == "running" and now - standing.since >= terms.settled_s:
        return replace(standing, failures=0)
    return standing


def failed(standing: RestartState, terms: RestartBounds, *, now: float) -> RestartState:
    """It has ended or was ended, however long ago it was started."""
    failures = settled(standing, terms, now=now).failures + 1
    if failures >= terms.failures:
        return RestartState("given up", now, now, failures)
    return RestartState("waiting", now, now + pause(failures, terms), failures)


def asked(standing: RestartState, *, at: float, now: float) -> RestartState:
    """Somebody asked at that time: a part that was given up before is started again, a waiting part at once."""
    if standing.state in ("given up", "waiting") and standing.failures and standing.since < at:
        return RestartState("waiting", now, now)
    return standing
