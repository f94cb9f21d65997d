"""For a project's own tests: a view's answer for events, folded whole and in two at every cut, against the plain oracle.

This is the platform's own property, on the events of a test: batch below a cut, merged with realtime from it on, answers what
the whole log means, wherever the cut lies.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from views import oracle
from views.arrow.ipc import from_ipc, to_ipc
from views.kernel.deduplicate import identity_columns
from views.kernel.kernel import Partial, merge, partial, prepare, present, unique
from views.source.event import Event
from views.source.offset_ranges import EMPTY
from views.testing import answer, events_table, rows_of
from views.verify import compare
from views.verify.compare import MeasureDifference
from views.view import View

Answer = Callable[[View, Iterable[Event]], list[dict[str, Any]]]
"""From a view and events, in the order of the log, to the rows that the view answers."""

AnswerAtCuts = Callable[[View, Iterable[Event]], Iterator[list[dict[str, Any]]]]
"""From a view and events to the rows at every cut."""


def at_every_cut(view: View, events: Iterable[Event]) -> Iterator[list[dict[str, Any]]]:
    """The rows of the view with the cut before the first event, after the first, ..., after the last: one more than events.

    Below the cut the events are folded as a batch, from the cut on as the speed layer does, which knows the identities below it;
    then both are merged. Estimates and sums of floats may differ in their last digits from cut to cut, all other rows may not.
    """
    log = events_table(view.source, [*events])
    return (rows_of(view, log, merged) for merged in _cut(view, log))


def checked_answer(view: View, events: Iterable[Event]) -> list[dict[str, Any]]:
    """The rows as `answer` gives them, once they are proven: equal to the plain oracle's, at every cut.

    Estimates may be off by three times their stated error, sums of floats by rounding. The oracle knows nothing of a measure that
    the project wrote itself: at every cut that has to be what it is of the whole. Raises AssertionError with the cut, the measure
    and the worst rows. It folds the events once for every cut: give it tens of events, or hundreds.
    """
    __tracebackhide__ = True
    given = [*events]
    log = events_table(view.source, given)
    whole, *_ = _cut(view, log)
    prepared = prepare(view.source, unique(view.source, log).events)
    groups, refused = oracle.grouped(view, prepared.events)
    refused = {**refused, **({"prepare": prepared.failed} if prepared.failed else {})}
    own = oracle.left_out(view)
    for cut, merged in enumerate(_cut(view, log)):
        if merged.rejected != refused:
            raise AssertionError(f"{_place(cut, given)} the view rejects {merged.rejected}, the oracle {dict(refused)}")
        for measure in oracle.compare(view, present(view, merged), groups):
            if measure.differ:
                raise AssertionError(_told(cut, given, measure, "the oracle has"))
        for measure in compare.compare(view, merged.states, whole.states):
            if measure.differ and measure.measure in own:
                raise AssertionError(_told(cut, given, measure, f"{_place(0, given)} it has"))
    return answer(view, given)


def _cut(view: View, log: pa.Table) -> Iterator[Partial]:
    """What the view has of the log, merged of two, at every cut."""
    return (_merged(view, log.slice(0, cut), log.slice(cut)) for cut in range(log.num_rows + 1))


def _merged(view: View, below: pa.Table, after: pa.Table) -> Partial:
    identities = below.select(identity_columns(view.source))
    batch = unique(view.source, below).events
    realtime = unique(view.source, after, identities).events
    return merge(view, [_stored(view, batch), _stored(view, realtime)])


def _stored(view: View, events: pa.Table) -> Partial:
    """The events folded, and read again as what a table holds."""
    prepared = prepare(view.source, events)
    folded = partial(view, prepared.events, EMPTY, prepared.failed)
    return Partial(from_ipc(to_ipc(folded.states)), EMPTY, folded.rejected)


def _told(cut: int, given: list[Event], difference: MeasureDifference, other: str) -> str:
    rows = "; ".join(
        f"{dict(one.row)}: no such row"
        if one.only == "found"
        else f"{dict(one.row)}: {one.served!r}, a row that is not there otherwise"
        if one.only == "served"
        else f"{dict(one.row)}: {one.served!r}, {other} {one.found!r}"
        for one in difference.examples
    )
    return f"{_place(cut, given)} measure {difference.measure!r} differs in {difference.differ} of {difference.rows} rows: {rows}"


def _place(cut: int, given: list[Event]) -> str:
    return f"with the cut after {cut} of {len(given)} events"
