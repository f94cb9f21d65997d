"""Why a row changed between two moments: its difference, split into parts that add up to it exactly.

The row goes through these states, each computed by the plain oracle from events of the log but for the first and the last, which
are what was answered. The difference of two neighbours is a part, so the parts add up to the whole.

| from | to | part |
| --- | --- | --- |
| what was answered then | the events of then, each once | duplicates, or what the log has lost since (gaps, erasure) |
| | those of the same places that count now | duplicates |
| | with the tables of now: below the cut as the batch layer looked them up | tables |
| | and the events that came before a publication had labelled the window final | new |
| | and those that came after that | late |
| | by the definitions of now | definition |
| | what is answered now | duplicates that the next recompute removes, or tables in which it looks up again |

Values are integers and decimals, so nothing is rounded. Other measures have no parts: the events explain them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any, Final, Literal, Self, get_args

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.rows_at import rows_at
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.publish.publications import Publication, Publications
from tandem.serving.read.selection import BadSelection, Selection, check_start
from tandem.serving.why.evidence import look_up
from tandem.serving.why.moments import MomentOfLog
from tandem.serving.why.part_log import OF_A_ROW, AskedRow, LogEvents, PartLog, WorkBounds
from tandem.serving.why.row_groups import ALL_TIMES, Span
from tandem.serving.why.table_rows import versions_at
from tandem.serving.why.topic_tail import LogTail
from tandem.serving.why.why import end_of
from tandem.views import oracle
from tandem.views.arrow import arrays
from tandem.views.composite.current_rows import RowsView
from tandem.views.composite.rollup import root
from tandem.views.composite.table import looked_up
from tandem.views.composite.together import parts
from tandem.views.fingerprint.definition_diff import compare
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.instant import microseconds
from tandem.views.kernel import kernel
from tandem.views.measures.count import Count
from tandem.views.measures.filtered import bare
from tandem.views.measures.total import Total
from tandem.views.oracle.answers import Group
from tandem.views.oracle.counted_events import NUMBER, CountedRow, Place, places
from tandem.views.source.united_source import names_of
from tandem.views.source.watermark import final_until, least
from tandem.views.view import View, answer_schema, bind, group_columns
from tandem.views.windows import Session

Cause = Literal["new events", "late events", "duplicates", "definition", "tables", "accepted gaps", "erasure"]
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)
Number = int | Decimal
Groups = dict[Group, list[CountedRow]]
EVERYTHING: Final = Selection()
LISTED: Final = 20
"""The most events of a row that are listed; all are counted."""

_DIGITS: Final = 100
"""More than the differences of totals have, whose states have at most 38: nothing is rounded."""


@dataclass(frozen=True)
class SplitDifference:
    """A measure of a row that changed; `parts` are by cause, None of a measure that does not subtract."""

    measure: str
    before: Any
    after: Any
    parts: Mapping[Cause, Number] | None = field(hash=False)


@dataclass(frozen=True)
class ChangedRow:
    """A row that differs: its differences, the events of its key and window that came since, and how many of these are late."""

    group: Mapping[str, Any] = field(hash=False)
    differences: tuple[SplitDifference, ...]
    events: tuple[Place, ...]
    late: int


@dataclass(frozen=True)
class WhyChanged:
    """The rows that changed between two moments, and the sentences about definitions that differ.

    Rows of windows that have left the view at the second moment are not among them. Nor is what the `erased` records had made, if
    the publication of the first moment is not retained, so that nobody knows that any more: an erasure deletes earlier ones.
    """

    first: MomentOfLog
    second: MomentOfLog
    rows: tuple[ChangedRow, ...]
    definition: tuple[str, ...]
    erased: int = 0


@dataclass(frozen=True)
class RowChanges:
    """Explains what changed, from the tables and the log."""

    tables: Tables
    tail: LogTail
    most: WorkBounds = OF_A_ROW

    def between(self, first: MomentOfLog, second: MomentOfLog, chosen: Selection = EVERYTHING) -> WhyChanged:
        """Why the rows of the selected keys, in the window that starts where the selection starts, changed between two moments.

        Raises BadSelection for moments in the wrong order, for views whose rows cannot be compared and for a start at which no
        window starts, ReadFailed, Unreadable.
        """
        _check(first, second)
        check_start(second.view, chosen.start)
        keys, key = chosen.keys, _key_table(second.view, chosen.keys)
        final = FinalCuts.of(first.view, Publications(self.tables).history())
        asked = [AskedRow(each.view, key, _span(each.view, chosen.start), self.most) for each in (first, second)]
        then, now = (self._states(moment, second, of, final) for moment, of in zip((first, second), asked, strict=True))
        definition = () if fingerprint(first.view) == fingerprint(second.view) else _definition(first, second)
        chain = [then.before, then.repaired, then.tables, then.on_time, then.whole, now.whole]
        names = [name for name in second.view.measures if name in first.view.measures]
        views = [first.view] * 5 + [second.view]
        values: list[Mapping[Group, Mapping[str, Any]]] = [_answers(*each) for each in zip(views, chain, strict=True)]
        values.insert(0, _answers_then(first, values[0]))
        values.append(_answers_then(second, values[-1]))
        lost = self._loss(first, second)
        last: Cause = "tables" if looked_up(root(second.view)) and not now.copies else "duplicates"
        wanted = [tuple(keys[name].as_py() for name in second.view.keys if name in keys), [*keys]]
        rows = []
        for group in sorted({group for state in values for group in state}, key=repr):
            if not _is_of(second.view, group, wanted, chosen.start) or _is_gone(second, group):
                continue
            causes: list[Cause] = [lost or "duplicates", "duplicates", "tables", "new events", "late events"]
            states = [state.get(group) for state in values]
            differences = tuple(_differences((first.view, second.view), names, states, [*causes, "definition", last]))
            if differences:
                since = _since(then.whole.get(group, []), first)
                late = {row.place for row in then.whole.get(group, [])} - {row.place for row in then.on_time.get(group, [])}
                rows.append(ChangedRow(_columns_of(second.view, group), differences, since, len(late)))
        erased = 0 if first.rows is not None else sum(self._erasures(first).values())
        return WhyChanged(first, second, tuple(rows), definition, erased)

    def _states(self, moment: MomentOfLog, until: MomentOfLog, asked: AskedRow, final: "FinalCuts") -> "_States":
        """The groups of a moment's definitions: by the events of the moment, and by those until another."""
        states = _States({}, {}, {}, {}, {}, set())
        # A source that the later definition does not read has only the earlier positions.
        cuts, ends = {**moment.cuts, **until.cuts}, {**moment.ends, **until.ends}
        for part in parts(root(moment.view)):
            name = part.source.name
            end, before = ends[name], moment.ends[name]
            then, now = (self._log(part, *each) for each in ((moment.cuts, moment.ends), (cuts, ends)))
            events = LogEvents(replace(then, end=end, others=(now.below, now.above)), asked)
            candidates = events.candidates()
            copies = events.copies(candidates)
            counted, first = events.choose(candidates, copies)
            above = {at for at in places(copies) if at[2] >= now.cut.get(at[:2], 0)} if first else set[Place]()
            states.copies.update(above - {at for _, at in first.values()})
            old = [_below(each, before) for each in (candidates, copies)]
            were, _ = events.choose(old[0], old[1])
            for state, some, log in (
                (states.before, were, then),
                (states.repaired, _below(counted, before), then),
                (states.tables, _below(counted, before), now),
                (states.whole, counted, now),
            ):
                for group, rows in _groups(moment.view, log, events, some).items():
                    state.setdefault(group, []).extend(rows)
                    if state is states.whole:
                        on_time = [row for row in rows if not final.late(group, name, row.place, before)]
                        states.on_time.setdefault(group, []).extend(on_time)
        return states

    def _log(self, part: View, cuts: Mapping[str, Position], ends: Mapping[str, Position]) -> PartLog:
        """A part's log, with what its look-ups find at these positions."""
        name = part.source.name
        below = versions_at(self.tables, self.tail, part, cuts)
        above = below if cuts == ends else versions_at(self.tables, self.tail, part, ends)
        return PartLog(self.tables, part, cuts[name], ends[name], below, above, self.tail)

    def _erasures(self, first: MomentOfLog) -> dict[str, int]:
        """By source, how many of the records that the first moment counts are erased."""
        return {name: Erasures(self.tables).count_within(name, ranges(LOG_START, end)) for name, end in first.ends.items()}

    def _loss(self, first: MomentOfLog, second: MomentOfLog) -> Cause | None:
        """What the log has lost of the events of the first moment, if anything."""
        if any(self._erasures(first).values()):
            return "erasure"
        return "accepted gaps" if {*second.gaps} - {*first.gaps} else None


@dataclass(frozen=True)
class _States:
    """Groups of a definition: of the events before, of those that count in their places now, with new tables, and of all.

    `on_time` lacks those that are late. `copies` are the places of duplicates from the cut on: a micro-batch may count them.
    """

    before: Groups
    repaired: Groups
    tables: Groups
    whole: Groups
    on_time: Groups
    copies: set[Place]


@dataclass(frozen=True)
class FinalCuts:
    """The cuts at which publications had labelled windows of a view final: of those that end until a time of `until`.

    `until` ascends; without entries if the view's windows are never final.
    """

    keys: int
    until: tuple[int, ...] = ()
    cuts: tuple[Mapping[str, Position], ...] = field(default=(), hash=False)

    @classmethod
    def of(cls, view: View, publications: Iterable[Publication]) -> Self:
        """Those of all publications, in their order."""
        placement, names = bind(view).placement, names_of(root(view).source.name)
        until, cuts = list[int](), list[Mapping[str, Position]]()
        for each in () if placement.in_order else publications:
            reached = least([each.watermarks.get(name) for name in names])
            if reached is None:
                continue
            final = final_until(view.source, reached, placement.timing.grace)
            if not until or final > until[-1]:
                until.append(final)
                cuts.append({name: each.cut(name) for name in names})
        return cls(len(view.keys), tuple(until), tuple(cuts))

    def late(self, group: Group, source: str, at: Place, before: Position) -> bool:
        """Whether an event came after the window of a group had been final, and not before a position."""
        end = group[self.keys + 1] if len(group) > self.keys + 1 else None
        if end is None or at[2] < before.get(at[:2], 0):
            return False
        number = bisect_left(self.until, microseconds(end))
        return number < len(self.until) and at[2] >= self.cuts[number][source].get(at[:2], 0)


def _check(first: MomentOfLog, second: MomentOfLog) -> None:
    if isinstance(second.view, RowsView):
        raise BadSelection(f"view {second.view.name!r} counts the rows of a table, not events; ask about the table")
    if _kinds(first.view) != _kinds(second.view):
        raise BadSelection(
            f"view {second.view.name!r} had other keys or another kind of window at {first.label}, so no row can be compared"
        )
    for name, end in first.ends.items():
        if name in second.ends and not end.at_or_below(second.ends[name]):
            raise BadSelection(f"{first.label} counts more of source {name!r} than {second.label}: name the earlier one first")


def _kinds(view: View) -> dict[str, bytes]:
    """The kind of each column that identifies a row."""
    schema = answer_schema(view)
    return {name: (schema.field(name).metadata or {})[b"kind"] for name in group_columns(view)}


def _span(view: View, start: datetime | None) -> Span:
    """The event times of the windows that start then; nobody knows when a session ends before its events are read."""
    if start is None or bind(view).placement.in_order:
        return ALL_TIMES
    return start, None if isinstance(view.window, Session) else end_of(view, start)


def _key_table(view: View, keys: Mapping[str, pa.Scalar]) -> pa.Table:
    named = {name: keys[name] for name in view.keys if name in keys}
    return pa.table({name: pa.array([value.as_py()], value.type) for name, value in named.items()})


def _below(events: pa.Table, end: Position) -> pa.Table:
    return events.filter(arrays.booleans(rows_at(events, EVENTS, ranges(LOG_START, end))))


def _groups(view: View, log: PartLog, events: LogEvents, some: pa.Table) -> Groups:
    prepared = kernel.prepare(log.source, some, events.generations).events
    prepared = prepared.append_column(NUMBER, arrays.row_numbers(prepared.num_rows))
    below = rows_at(prepared, EVENTS, ranges(LOG_START, log.cut))
    return oracle.classify(view, look_up(log, prepared, below), part=log.part)[0]


def _answers(view: View, groups: Groups) -> dict[Group, Mapping[str, Any]]:
    return dict(oracle.answers(view, groups))


def _answers_then(moment: MomentOfLog, otherwise: Mapping[Group, Mapping[str, Any]]) -> Mapping[Group, Mapping[str, Any]]:
    """What was answered then, by group; what the log makes where that is not known."""
    if moment.rows is None:
        return otherwise
    columns = group_columns(moment.view)
    return {tuple(row[name] for name in columns): row for row in moment.rows.to_pylist()}


def _is_of(view: View, group: Group, wanted: Sequence[Any], start: datetime | None) -> bool:
    values, names = wanted
    if tuple(value for name, value in zip(view.keys, group, strict=False) if name in names) != values:
        return False
    return start is None or group[len(view.keys)] == start


def _is_gone(moment: MomentOfLog, group: Group) -> bool:
    """Whether a window had left the view at a moment: then no event, but the log's time, has changed the row."""
    return moment.kept_from is not None and group[len(moment.view.keys)] < moment.kept_from


def _differences(
    views: tuple[View, View], names: Sequence[str], states: Sequence[Mapping[str, Any] | None], causes: Sequence[Cause]
) -> Iterator[SplitDifference]:
    """The measures of a row that differ between its first and last state, split by the causes of its steps if they subtract."""
    for name in names:
        values = [None if state is None else state.get(name) for state in states]
        subtracts = all(_subtracts(view, name) for view in views)
        if values[0] == values[-1] and (not subtracts or len({*values}) == 1):
            continue
        if not subtracts:
            yield SplitDifference(name, values[0], values[-1], None)
            continue
        numbers = [0 if value is None else value for value in values]
        shares = dict.fromkeys(CAUSES, numbers[-1] * 0)
        with localcontext(prec=_DIGITS):
            for cause, before, after in zip(causes, numbers, numbers[1:], strict=False):
                shares[cause] += after - before
        yield SplitDifference(name, values[0], values[-1], {cause: share for cause, share in shares.items() if share})


def _subtracts(view: View, name: str) -> bool:
    """Whether differences of a measure's values are exact and add up: counts, and totals of integers and decimals."""
    kind = answer_schema(view).field(name).type
    return isinstance(bare(view.measures[name]), Count | Total) and (pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _since(rows: Sequence[CountedRow], moment: MomentOfLog) -> tuple[Place, ...]:
    """The places of the events that came after a moment."""
    ends = [*moment.ends.values()]
    new = {row.place for row in rows if all(row.place[2] >= end.get(row.place[:2], 0) for end in ends)}
    return tuple(sorted(new))


def _columns_of(view: View, group: Group) -> dict[str, Any]:
    return dict(zip(group_columns(view), group, strict=False))


def _definition(first: MomentOfLog, second: MomentOfLog) -> tuple[str, ...]:
    """How the definitions of two moments differ in what the view means."""
    changes = compare(first.project, second.project)
    names = {root(second.view).name, second.view.name, *(part.source.name for part in parts(root(second.view)))}
    every = [(each.name, each.changes) for each in changes.sources] + [(each.name, each.changes) for each in changes.views]
    return tuple(f"{name}: {change.words}" for name, of in every if name in names for change in of if change.kind != "none")
