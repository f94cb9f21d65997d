"""The check of sinks: whether each one of definitions.py runs, writes and keeps up."""

from collections.abc import Iterator
from typing import Final

from tandem.cli.doctor.check import Check, FailedCheck, Finding, ok
from tandem.cli.doctor.subject import Subject
from tandem.ledger.publish.publications import Publications
from tandem.serving.read.merged_layers import Reader
from tandem.serving.sinks.definition import sinks_of
from tandem.serving.status.sinks import sink_states
from tandem.views.counted import counted

_LATE_S: Final = 300

FAILING: Final = FailedCheck(
    "fail",
    "a sink fails, and is tried again",
    "remove the named cause; the sink continues from its token. `tandem logs sink` shows every attempt",
)
STOPPED: Final = FailedCheck(
    "warn",
    "no process of this state folder runs a sink",
    "`tandem up` runs all sinks; ignore this where a schedule runs it with `--once`",
)
LATE: Final = FailedCheck(
    "warn", "a sink runs, but its target has not been the view for five minutes", "see `tandem logs sink`; the target may be slow"
)


def _sinks(subject: Subject) -> Iterator[Finding]:
    sinks = sinks_of(subject.call.definitions(), subject.settings, subject.call.project)
    if not sinks:
        yield ok("the project has no sinks")
        return
    snapshot = None if Publications(subject.tables).latest() is None else Reader(subject.tables).snapshot()
    states = {each.sink: each for each in sink_states(subject.settings.folder, snapshot, now=subject.now)}
    for name in sinks:
        state = states.get(name)
        if state is None:
            yield STOPPED.found(f"sink {name} has never run here")
            continue
        stands = "its target has no token yet"
        if state.position is not None:
            behind = "the lag is not known" if state.lag is None else f"{counted(state.lag, 'offset')} behind answers"
            stands = f"its token counts {counted(sum(state.position.values()), 'offset')}, {behind}"
        before = "" if state.error is None else f"; last error: {state.error}"
        if state.state == "failing":
            yield FAILING.found(f"sink {name} fails: {state.error}; {stands}")
        elif state.state == "stopped":
            yield STOPPED.found(f"sink {name} is stopped; {stands}{before}")
        elif state.lag_s is not None and state.lag_s > _LATE_S:
            yield LATE.found(f"sink {name} has been late for {state.lag_s:.0f} s; {stands}{before}")
        else:
            yield ok(f"sink {name} runs; {stands}{before}")


CHECKS: Final = (
    Check(
        "sinks",
        _sinks,
        FailedCheck("fail", "the definitions or the publications cannot be read", "see `definitions` and `tables`"),
        (FAILING, STOPPED, LATE),
        needs=("state",),
    ),
)
