"""The rows that each key and window of a view has, and what the view answers of them."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from tandem.views.arrow import python_values
from tandem.views.composite.current_rows import VALID_FROM, RowsView, folding
from tandem.views.composite.dated import DatedView, newest_definition
from tandem.views.composite.rollup import Rollup, keys_over_root, root
from tandem.views.measures.derived import Derived, derived_term
from tandem.views.measures.first_last import NewestVersion
from tandem.views.oracle.counted_events import CountedRow, Rejections, counted_rows, with_numbers
from tandem.views.oracle.expressions import evaluated
from tandem.views.oracle.measures import MeasureInputs, meaning, newest
from tandem.views.oracle.terms import derived_values
from tandem.views.oracle.times import event_times
from tandem.views.oracle.windows import leaves_calendar, starts, windows
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.log_order import GENERATION
from tandem.views.source.source import INDEX
from tandem.views.sql.expressions import Reason
from tandem.views.view import View, answer_schema, bind
from tandem.views.windows import Current

Group = tuple[Any, ...]
"""The values of an answer's keys and then of what tells its window from others, as `group_columns` (views/view.py) names them."""

Answers = dict[Group, dict[str, Any]]


_PLACE: Final = {"_topic_id": pa.string(), "_partition": pa.int32(), "_offset": pa.int64(), INDEX: pa.int32()}
_FIRST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Definition:
    """A definition of a view, and of which windows: those that begin in `[start, end)`."""

    view: View
    start: datetime = _FIRST
    end: datetime | None = None

    def counts(self, begins: datetime) -> bool:
        """Whether windows that begin then have this definition."""
        return self.start <= begins and (self.end is None or begins < self.end)

    def has(self, group: Group) -> bool:
        """Whether the window of a group has this definition; every window has that of a view with one."""
        return (self.end is None and self.start == _FIRST) or self.counts(group[len(self.view.keys)])

    def answers(self, groups: Mapping[Group, Sequence[CountedRow]]) -> Iterator[tuple[Group, dict[str, Any]]]:
        """What it answers of its own groups among these."""
        yield from answers(self.view, {group: rows for group, rows in groups.items() if self.has(group)}).items()


def definitions(view: View) -> tuple[Definition, ...]:
    """The definitions of a view, the oldest first; most have one."""
    earlier = view.earlier if isinstance(view, DatedView) else ()
    times = [_FIRST, *(each.until for each in earlier), None]
    views = [*(replace(each.view, source=view.source) for each in earlier), newest_definition(view)]
    spans = zip(views, pairwise(times), strict=True)
    return tuple(Definition(each, start or _FIRST, end) for each, (start, end) in spans)


def grouped(
    view: View, events: pa.Table, versions: Mapping[str, pa.Table] | None = None
) -> tuple[dict[Group, list[CountedRow]], Mapping[Reason, int]]:
    """The rows of each key and window, and how many the view rejects for which reason; see `classify`."""
    groups, refused = classify(view, events, versions)
    return groups, Counter(reason for _, reason in refused)


def classify(
    view: View, events: pa.Table, versions: Mapping[str, pa.Table] | None = None, *, part: View | None = None
) -> tuple[dict[Group, list[CountedRow]], Rejections]:
    """The rows of each key and window, and which rows the view rejects for which reason.

    An event that several definitions reject counts for the oldest of them. `events` are all of their keys' that count, as the
    source prepares them, in any order. `versions` are those of the tables in which the view looks up, by name of the view of
    versions. Of a view over several sources `part` is the part whose events these are. Raises DefinitionError.
    """
    bind(view)
    source = (part or view).source
    if not isinstance(view, DatedView):
        return _group(view, events, versions, part)
    groups: dict[Group, list[CountedRow]] = {}
    rejections: Rejections = []
    before, events = set[int](), with_numbers(events)
    for definition in definitions(view):
        times = event_times(source, events)
        counting = [any(map(definition.counts, starts(view.window, at))) for at in times]
        rows, refused = _group(definition.view, events.filter(pa.array(counting, pa.bool_())))
        groups |= {group: some for group, some in rows.items() if definition.has(group)}
        rejections += [(number, reason) for number, reason in refused if number not in before]
        before |= {number for number, _ in refused}
    return groups, rejections


def _group(
    view: View, events: pa.Table, versions: Mapping[str, pa.Table] | None = None, part: View | None = None
) -> tuple[dict[Group, list[CountedRow]], Rejections]:
    if isinstance(view, RowsView):
        groups, rejected = _group(view.parent, events)
        inner, refused = _group(folding(view), _current(view.parent, groups))
        return inner, rejected + refused
    first = part or root(view)  # of a rollup the view that reads the events
    rows, rejected = counted_rows(first, events, versions)
    of_view = _keys(view, [row.key for row in rows])
    keys: dict[tuple[Any, ...], list[CountedRow]] = defaultdict(list)
    for row, key in zip(rows, of_view, strict=True):
        if leaves_calendar(first.window, row.at):
            rejected.append((row.number, "out_of_range"))
        else:
            keys[key].append(row)
    groups = {(*key, *bounds): held for key, of_key in keys.items() for bounds, held in windows(view.window, of_key)}
    if isinstance(view.window, Current):
        name = view.window.column
        measure = view.measures[name]
        assert isinstance(measure, NewestVersion)  # the states of a table have no others
        groups = {group: of for group, of in groups.items() if newest(seen(of, name), measure).inputs[-1] is not True}
    return groups, rejected


def _current(table: View, groups: Mapping[Group, Sequence[CountedRow]]) -> pa.Table:
    """The rows that a table has, of the versions of each key, as events: each at the time and place of its latest version."""
    name, measure = next(iter(table.measures.items()))
    assert isinstance(measure, NewestVersion)
    schema = answer_schema(table)
    rows = [{**dict(zip(table.keys, group, strict=False)), **row} for group, row in answers(table, groups).items()]
    latest = [newest(seen(of, name), measure).row for of in groups.values()]
    columns = {each: [row[each] for row in rows] for each in (*table.keys, *table.measures)}
    places = {each: [row.place[number] for row in latest] for number, each in enumerate(_PLACE)}
    return pa.table(
        {
            **{each: python_values.array(values, schema.field(each).type) for each, values in columns.items()},
            **{each: pa.array(values, _PLACE[each]) for each, values in places.items()},
            VALID_FROM: python_values.array([row.at for row in latest], TIMESTAMP),
            GENERATION.name: pa.array([row.generation for row in latest], GENERATION.type),
        }
    )


def _keys(view: View, of_root: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The keys of rows, of the keys that they have in the view that reads the events."""
    if not isinstance(view, Rollup):
        return [*of_root]
    if not view.keys:
        return [()] * len(of_root)
    of = bind(root(view)).keys
    columns = [python_values.array([key[at] for key in of_root], bound.type.arrow) for at, (_, bound) in enumerate(of)]
    table = pa.table(columns, names=[name for name, _ in of])
    return [*zip(*(evaluated(sql, table) for sql in keys_over_root(view).values()), strict=True)]


def answers(view: View, groups: Mapping[Group, Sequence[CountedRow]]) -> Answers:
    """What the view answers, but for what is left out."""
    if isinstance(view, DatedView):
        return {
            group: {**dict.fromkeys(view.measures), **row}
            for definition in definitions(view)
            for group, row in definition.answers(groups)
        }
    indexed = view.source.max_events_per_record is not None
    types = {measure.name: [expression.type for expression in measure.inputs] for measure in bind(view).measures}
    meanings = {name: meaning(one, indexed=indexed, types=types[name]) for name, one in view.measures.items()}
    said = {name: each.answer for name, each in meanings.items() if each is not None}
    found = {group: {name: answer(seen(rows, name)) for name, answer in said.items()} for group, rows in groups.items()}
    for name, values in derived(view, list(found.values())).items():
        for answer, value in zip(found.values(), values, strict=True):
            answer[name] = value
    return found


def left_out(view: View) -> tuple[str, ...]:
    """The measures of which the oracle says nothing: those that the project made itself, and what is derived from them."""
    own = {name for name, one in view.measures.items() if not isinstance(one, Derived) and meaning(one) is None}
    return tuple(one.name for one in bind(view).measures if one.name in own or not own.isdisjoint(one.reads))


def seen(rows: Sequence[CountedRow], measure: str) -> list[MeasureInputs]:
    """What a measure sees of rows, in their order: nothing of those that its filter leaves out."""
    return [MeasureInputs(row, row.inputs[measure]) for row in rows if measure in row.inputs]


def derived(view: View, of: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """What each derived measure is of N answers to the others, None where it fails or is not a number."""
    bound, without = {one.name: one for one in bind(view).measures}, left_out(view)
    found: dict[str, list[Any]] = {}
    for name, measure in view.measures.items():
        if isinstance(measure, Derived) and name not in without:
            types = {read: bound[read].aggregate.answer for read in bound[name].reads}
            expression = bound[name].derived
            assert expression is not None
            term = derived_term(expression, {one: other.aggregate for one, other in bound.items() if other.derived is None})
            found[name] = derived_values(term, of, types)
    return found
