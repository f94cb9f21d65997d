"""A view of several definitions: windows that begin before a time keep an earlier one, also for events that arrive later.

Its *pieces* are plain views over one source, with the same keys and window. Each folds the events of its own windows into states
of its own, so a number never depends on when an event arrived. Only a row of an answer unites them: it has the columns of the
newest definition, NULL where the definition of its window lacks the measure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from hashlib import md5
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.bound_view import BoundMeasure, BoundView
from tandem.views.errors import DefinitionError, listed
from tandem.views.instant import utc_text
from tandem.views.lookup.lookup import check_place
from tandem.views.source.event import TIMESTAMP
from tandem.views.view import View, bind, state_schema
from tandem.views.windows.placement import WINDOW_COLUMNS

PIECE: Final = pa.field("_piece", pa.int8())
"""The column of states with the number of their piece; NULL is the oldest, whose states a plain view may have written."""


@dataclass(frozen=True)
class Earlier:
    """The definition of a view's windows that begin before `until`, from the end of the definition before on."""

    view: View
    until: datetime


@dataclass(frozen=True, eq=False)
class DatedView(View):
    """The newest definition of a view, and the `earlier` ones, the oldest first, by ascending times."""

    earlier: tuple[Earlier, ...] = ()

    def binding(self) -> BoundView:
        """The newest definition, with the state columns of all. Raises DefinitionError for definitions that cannot be united."""
        newest = bind(newest_definition(self))
        first_at = newest.placement.timing.first_at
        if first_at is None:
            raise DefinitionError(
                f"view {self.name!r} has window {self.window}, which does not begin at a time, so no definition can count from a "
                "time on; apply it to the whole history"
            )
        *before, last = _views(self)
        for view in (*before, last):
            check_place(view.lookup, f"view {self.name!r}", "earlier definitions")
        for view in before:
            _refuse_unlike(view, last)
        names = _columns(tuple(map(bind, (*before, last))))
        measures = tuple(
            replace(each, columns=tuple(names[column, state.type] for column, state in each.states)) for each in newest.measures
        )
        types = {column: type_ for (_, type_), column in names.items()}
        stored = {column for each in measures for column in each.columns}
        columns = newest.placement.columns
        placement = replace(newest.placement, columns=replace(columns, states=(*columns.states, PIECE)))
        others = tuple((column, type_) for column, type_ in types.items() if column not in stored)
        return replace(newest, measures=measures, placement=placement, earlier=others)

    def _parts(self) -> tuple[object, ...]:
        return (*super()._parts(), self.earlier)


@dataclass(frozen=True)
class Piece:
    """One definition of a view, and the windows that it counts: those that begin in `[start, end)`; None is open.

    `end` and `start` are starts of windows. `number` is 0 for the oldest. `names` has its state columns, by name in its own
    states.
    """

    view: View
    number: int = 0
    start: datetime | None = None
    end: datetime | None = None
    names: Mapping[str, str] = field(default_factory=dict, hash=False)

    def events(self, events: pa.Table) -> pa.Table:
        """The events that any of its windows has."""
        end = None if self.end is None else self.end + bind(self.view).placement.timing.overlap
        return _between(events, self.view.source.time_column, self.start, end)

    def events_from_start(self, events: pa.Table) -> pa.Table:
        """The events from its first window's start until the next piece's: each event is of one piece."""
        return _between(events, self.view.source.time_column, self.start, self.end)

    def rows(self, arranged: pa.Table) -> pa.Table:
        """The rows of its windows."""
        return _between(arranged, WINDOW_COLUMNS[0], self.start, self.end)

    def select(self, states: pa.Table) -> pa.Table:
        """Its states among those of all pieces, with its own columns."""
        numbers = states[PIECE.name]
        # A mask: to filter by an expression takes a millisecond more.
        rows = states.filter(pc.equal(numbers, self.number) if self.number else pc.is_null(numbers))
        schema = state_schema(self.view)
        return pa.Table.from_arrays([rows[self.names.get(name, name)] for name in schema.names], schema=schema)

    def rename(self, arranged: pa.Table, schema: pa.Schema) -> pa.Table:
        """Rows with the columns of all pieces as rows of its own, which have this schema."""
        return pa.Table.from_arrays([arranged[self.names.get(name, name)] for name in schema.names], schema=schema)

    def among(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Its states or rows with the columns of all pieces."""
        theirs = {column: name for name, column in self.names.items()}
        number = pa.scalar(self.number or None, PIECE.type)
        columns = []
        for each in schema:
            name = theirs.get(each.name, each.name if each.name not in self.names else "")
            if each.name == PIECE.name:
                columns.append(pa.repeat(number, rows.num_rows))
            else:
                columns.append(rows[name] if name in rows.column_names else pa.nulls(rows.num_rows, each.type))
        return pa.Table.from_arrays(columns, schema=schema)


def chain(newest: View, earlier: tuple[Earlier, ...]) -> View:
    """A view that counts its windows by these definitions; the newest itself without earlier ones."""
    return DatedView(**_fields(newest), earlier=earlier) if earlier else newest  # type: ignore[arg-type]


def newest_definition(view: View) -> View:
    """The newest definition alone."""
    return View(**_fields(view)) if isinstance(view, DatedView) else view  # type: ignore[arg-type]


def _fields(view: View) -> dict[str, object]:
    return {name: value for name, value in view.__getstate__().items() if name != "earlier"}


def before(view: View, time: datetime) -> View:
    """How the view counts windows that begin before a time."""
    earlier = view.earlier if isinstance(view, DatedView) else ()
    kept = tuple(each for each in earlier if each.until < time)
    later = earlier[len(kept) :]
    newest = replace(newest_definition(later[0].view), source=view.source, name=view.name) if later else newest_definition(view)
    return chain(newest, kept)


@lru_cache(maxsize=1024)
def pieces(view: View) -> tuple[Piece, ...]:
    """The pieces of a view, the oldest first; a plain view is one piece. Raises DefinitionError as `bind` does."""
    if not isinstance(view, DatedView):
        return (Piece(view),)
    first_at = bind(view).placement.timing.first_at
    assert first_at is not None  # `bind` refuses such a view
    times = [None, *(first_at(each.until) for each in view.earlier), None]
    views = _views(view)
    names = _columns(tuple(map(bind, views)))
    return tuple(
        Piece(
            each,
            number,
            times[number],
            times[number + 1],
            {column: names[column, state.type] for measure in bind(each).measures for column, state in measure.states},
        )
        for number, each in enumerate(views)
    )


def starts(view: View) -> list[str]:
    """When the later definitions of a view begin, the oldest first, as documents have times; none if it has one definition."""
    return [utc_text(piece.start) for piece in pieces(view) if piece.start is not None]


def _views(view: DatedView) -> list[View]:
    """The definitions, the oldest first, all over the source of the newest."""
    return [
        *(replace(newest_definition(each.view), source=view.source, name=view.name) for each in view.earlier),
        newest_definition(view),
    ]


def _columns(views: tuple[BoundView, ...]) -> dict[tuple[str, pa.DataType], str]:
    """By name and type in its own states, the column of each state: its name, unless an older definition has it for another type.

    A later definition changes no name, so a table of states only gains columns.
    """
    taken: dict[str, tuple[str, pa.DataType]] = {}
    names: dict[tuple[str, pa.DataType], str] = {}
    for binding in views:
        for column in ((name, state.type) for each in binding.measures for name, state in each.states):
            free = taken.setdefault(column[0].casefold(), column) == column
            mark = md5(f"{column[0]} {column[1]}".encode(), usedforsecurity=False).hexdigest()[:8]
            names[column] = column[0] if free else f"{column[0]}__{mark}"
    return names


def _refuse_unlike(before: View, after: View) -> None:
    """Raise DefinitionError unless answers can have rows of both definitions."""
    place, each, newer = f"view {after.name!r}", bind(before), bind(after)
    if before.window != after.window:
        raise DefinitionError(
            f"{place}: its window was {before.window} and is {after.window}, and one view has one kind of window; give the view "
            "another name, or apply it to the whole history"
        )
    keys = [{name: key.canonical for name, key in binding.keys} for binding in (each, newer)]
    for name in {**keys[0], **keys[1]}:
        if keys[0].get(name) != keys[1].get(name):
            was, now = before.keys.get(name, "not a key"), after.keys.get(name, "not a key")
            raise DefinitionError(
                f"{place}: key {name!r} was {was} and is {now}, and a key means the same in all windows; its keys were "
                f"{listed(name, before.keys)}; give the view another name, or apply it to the whole history"
            )
    types: dict[str, BoundMeasure] = {measure.name: measure for measure in each.measures}
    for measure in newer.measures:
        was_type = types[measure.name].aggregate.answer if measure.name in types else measure.aggregate.answer
        if was_type != measure.aggregate.answer:
            raise DefinitionError(
                f"{place}: measure {measure.name!r} was of type {was_type} and is {measure.aggregate.answer}, and a column has "
                "one type; give the measure another name, or apply the view to the whole history"
            )


def _between(rows: pa.Table, column: str, start: datetime | None, end: datetime | None) -> pa.Table:
    """The rows whose time is in `[start, end)`; the same table where all are."""
    if not rows.num_rows:
        return rows
    low, high = (pc.min_max(rows[column])[part].as_py() for part in ("min", "max"))
    if start is not None and low < start:
        rows = rows.filter(pc.greater_equal(rows[column], pa.scalar(start, TIMESTAMP)))
    if end is not None and high >= end:
        rows = rows.filter(pc.less(rows[column], pa.scalar(end, TIMESTAMP)))
    return rows
