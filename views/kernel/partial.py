"""The kernel's partial: folds events of any ranges, in any order, into the states of a view."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.composite.dated import DatedView, Piece, pieces
from tandem.views.kernel.fold_sql import COUNT, EVENTS, fold_sql, judged_sql
from tandem.views.kernel.look_up import NO_VERSIONS, Versions, with_rows
from tandem.views.source.offset_ranges import EMPTY, Ranges
from tandem.views.sql import engine
from tandem.views.sql.expressions import REASONS, Reason
from tandem.views.view import View, bind, state_schema
from tandem.views.windows.placement import REASON

_ROW: Final = "_row"


@dataclass(frozen=True)
class Partial:
    """The states of a view over the events of some ranges, in no order, with the columns of state_schema(view).

    * One row per key and window, unless the kind of window needs more.
    * `rejected`: the number of events that the view rejects, by reason (tandem.views.sql.expressions.Reason).
    * `ranges`: the offsets that states and `rejected` cover.
    """

    states: pa.Table
    ranges: Ranges = EMPTY
    rejected: Mapping[str, int] = field(default_factory=dict)


def partial(view: View, events: pa.Table, ranges: Ranges, failed: int = 0, *, versions: Versions = NO_VERSIONS) -> Partial:
    """Fold events, as the source prepares them, into the view's states; for `failed` events `prepare` has failed.

    `versions` has, by name of a view of versions, what the view's look-ups in tables of sources read.

    Each event counts, is left out by the filter or is rejected; no event makes the fold fail. This thread's engine keeps the
    events registered, for the next view of the same events.

    Raises:
        DefinitionError: the view itself is invalid.
        KeyError: the versions of a table are missing.
    """
    if isinstance(view, DatedView):
        return _of_pieces(view, events, ranges, failed)
    if not events.num_rows:
        return Partial(no_states(view), ranges, _by_reason({"prepare": failed}))
    prepare = bind(view).placement.steps.fold.prepare
    events = with_rows(view, events, versions)
    folded, poison = _fold(fold_sql(view), events if prepare is None else prepare(events, list(view.keys)))
    reasons = folded.column(REASON)
    if reasons.null_count == len(reasons):
        return Partial(_states(view, folded), ranges, _by_reason({"expression": poison, "prepare": failed}))
    refused = folded.filter(pc.is_valid(reasons))
    codes, numbers = (refused.column(name).to_pylist() for name in (REASON, COUNT))
    counted = Counter({REASONS[code]: number for code, number in zip(codes, numbers, strict=True)})
    counted.update({"expression": poison, "prepare": failed})
    return Partial(_states(view, folded.filter(pc.is_null(reasons))), ranges, _by_reason(counted))


def _of_pieces(view: View, events: pa.Table, ranges: Ranges, failed: int) -> Partial:
    """The partials of all pieces. An event that several reject is rejected once, for the reason of the oldest of them."""
    rejected, schema = Counter[str]({"prepare": failed}), state_schema(view)
    states, rejecting = [no_states(view)], list[Piece]()
    for piece in pieces(view):
        folded = partial(piece.view, piece.events(events), EMPTY)
        rejected.update(folded.rejected)
        if folded.rejected:
            rejecting.append(piece)
        states.append(piece.among(folded.states, schema))
    if bind(view).placement.timing.overlap:
        rejected.subtract(_repetitions(rejecting, events))
    return Partial(pa.concat_tables(states), ranges, {reason: rejected[reason] for reason in REASONS if rejected[reason]})


def _repetitions(rejecting: Sequence[Piece], events: pa.Table) -> Counter[str]:
    """By reason the rejections of events by a piece after an older one of these has rejected them."""
    repeated = Counter[str]()
    numbered = events.append_column(_ROW, pa.array(range(events.num_rows), pa.int64()))
    for number, (before, piece) in enumerate(pairwise(rejecting), 1):
        both = piece.events(before.events(numbered))
        earlier = {row for older in rejecting[:number] for row, _ in _rejections(older, both)}
        repeated.update(reason for row, reason in _rejections(piece, both) if row in earlier)
    return repeated


def _rejections(piece: Piece, numbered: pa.Table) -> Iterator[tuple[int, Reason]]:
    """The numbers of the events that a piece rejects, with the reasons. Windows that overlap prepare no events."""
    sql = f"SELECT {_ROW}, {REASON} FROM {judged_sql(piece.view, _ROW)} WHERE {REASON} IS NOT NULL"
    for rows, rejected in engine.halved(sql, EVENTS, with_rows(piece.view, piece.events(numbered), NO_VERSIONS)):
        if rejected is None:
            yield rows[_ROW][0].as_py(), "expression"
        else:
            codes = rejected[REASON].to_pylist()
            yield from zip(rejected[_ROW].to_pylist(), (REASONS[code] for code in codes), strict=True)


def _by_reason(counted: Mapping[Reason, int]) -> dict[str, int]:
    return {reason: counted[reason] for reason in REASONS if counted.get(reason)}


def _fold(sql: str, events: pa.Table) -> tuple[pa.Table, int]:
    """The statement's result for the events for which it does not fail, and the number of those for which it fails."""
    pieces = list(engine.halved(sql, EVENTS, events))
    (_, folded), *others = pieces
    if folded is not None and not others:
        return folded, 0
    harmless = [piece for piece, result in pieces if result is not None]
    folded = engine.query(sql, {EVENTS: pa.concat_tables([events.slice(0, 0), *harmless])})
    return folded, sum(result is None for _, result in pieces)


def no_states(view: View) -> pa.Table:
    """The states of a view that has counted no event."""
    return pa.Table.from_batches([], schema=state_schema(view))


def _states(view: View, folded: pa.Table) -> pa.Table:
    """DuckDB's folds, completed by the states that DuckDB cannot compute."""
    bound, schema = bind(view), state_schema(view)
    builds = {name: state.build for measure in bound.measures for name, state in measure.states}
    columns = []
    for name in schema.names:
        column, build = arrays.whole(folded.column(name)), builds.get(name)
        columns.append(column if build is None else build(column))
    return arrays.table(columns, schema)
