"""For a project's tests: a view's answer for events, folded whole and split at every cut, and compared with the plain oracle.

It tests the platform's main property on the events of a test: batch below the cut, merged with realtime from the cut on, gives
the answer of the whole log, wherever the cut is.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from tandem.views import oracle
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel.deduplicate import identity_columns
from tandem.views.kernel.kernel import Partial, deduplicate, merge, partial_of, prepare, present
from tandem.views.source.event import Event
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.testing import answer, events_table, rows_of
from tandem.views.verify import compare
from tandem.views.verify.compare import MeasureDifference
from tandem.views.view import View

Answer = Callable[[View, Iterable[Event]], list[dict[str, Any]]]
"""Takes a view and events, in the order of the log, and returns the rows of the view's answer."""

AnswerAtCuts = Callable[[View, Iterable[Event]], Iterator[list[dict[str, Any]]]]
"""Takes a view and events, and returns the rows at every cut."""


def at_every_cut(view: View, events: Iterable[Event]) -> Iterator[list[dict[str, Any]]]:
    """The rows of the view with the cut before the first event, after the first, ..., after the last.

    There is one result more than events. Events below the cut are folded as in a batch. Events from the cut on are folded as in
    the speed layer, which knows the identities below the cut. Then both are merged. Estimates and sums of floats may differ in
    their last digits from cut to cut; all other values must be equal.
    """
    log = events_table(view.source, [*events])
    return (rows_of(view, log, merged) for merged in _cut(view, log))


def checked_answer(view: View, events: Iterable[Event]) -> list[dict[str, Any]]:
    """The rows of `answer`, after a check that the rows at every cut equal the plain oracle's.

    * Estimates may be off by three times their stated error, sums of floats by rounding.
    * The oracle cannot evaluate a measure of the project: at every cut it has to equal its value without a cut.
    * The function folds the events once for every cut, so pass tens or hundreds of events.

    Raises AssertionError with the cut, the measure and the worst rows.
    """
    __tracebackhide__ = True
    given = [*events]
    log = events_table(view.source, given)
    whole, *_ = _cut(view, log)
    prepared = prepare(view.source, deduplicate(view.source, log).events)
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
    """The merged states of the view at every cut."""
    return (_merged(view, log.slice(0, cut), log.slice(cut)) for cut in range(log.num_rows + 1))


def _merged(view: View, below: pa.Table, after: pa.Table) -> Partial:
    identities = below.select(identity_columns(view.source))
    batch = deduplicate(view.source, below).events
    realtime = deduplicate(view.source, after, identities).events
    return merge(view, [_stored(view, batch), _stored(view, realtime)])


def _stored(view: View, events: pa.Table) -> Partial:
    """The states of the events, as read from a table."""
    prepared = prepare(view.source, events)
    folded = partial_of(view, prepared.events, EMPTY, prepared.failed)
    return Partial(from_ipc(to_ipc(folded.states)), EMPTY, folded.rejected)


def _told(cut: int, given: list[Event], difference: MeasureDifference, other: str) -> str:
    rows = "; ".join(
        f"{dict(one.row)}: no such row"
        if one.only == "found"
        else f"{dict(one.row)}: {one.served!r}, an unexpected row"
        if one.only == "served"
        else f"{dict(one.row)}: {one.served!r}, {other} {one.found!r}"
        for one in difference.examples
    )
    return f"{_place(cut, given)} measure {difference.measure!r} differs in {difference.differ} of {difference.rows} rows: {rows}"


def _place(cut: int, given: list[Event]) -> str:
    return f"with the cut after {cut} of {len(given)} events"
