"""A view: keys, a window and measures over the events of a source, and what its tables look like."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from views.errors import DefinitionError
from views.event import TIMESTAMP
from views.expressions import Expression, bind_expression
from views.measures.derived import Derived, bind_derived
from views.measures.filtered import Filtered
from views.measures.measure import Aggregate, Approximation, Measure, State
from views.source import Source, events_schema
from views.windows import AllTime, Tumbling, Window

WINDOW_COLUMNS: Final = ("window_start", "window_end")

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_RESERVED: Final = frozenset({*WINDOW_COLUMNS, "batch_version"})


@dataclass(frozen=True, eq=False)
class View:
    """What is to be known about a source's events.

    `keys` names expressions; each combination of their values, NULL like any other, has its own answers. `window` cuts
    event time. `measures` names what is said about the events of a key and window. `where` leaves out every event for
    which it is not true; the others are looked at by no expression before it. `name` is the variable's in definitions.py
    unless it is given.
    """

    source: Source
    keys: Mapping[str, str] = field(default_factory=dict)
    window: Window = field(default_factory=AllTime)
    measures: Mapping[str, Measure] = field(default_factory=dict)
    where: str | None = None
    name: str = ""

    def __eq__(self, other: object) -> bool:
        """Equal in every part; the order of keys and measures counts, because columns stand in it."""
        return isinstance(other, View) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[object, ...]:
        return (self.source, tuple(self.keys.items()), self.window, tuple(self.measures.items()), self.where, self.name)


@dataclass(frozen=True)
class BoundMeasure:
    """A measure of a bound view: its aggregate, its inputs and the names of its state columns.

    A derived one has no inputs and states, but an expression over other measures' answers, those in `reads`.
    """

    name: str
    aggregate: Aggregate
    inputs: tuple[Expression, ...] = ()
    columns: tuple[str, ...] = ()
    derived: Expression | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The measures that it is derived from, in order of name."""
        return () if self.derived is None else tuple(sorted(self.derived.fields))

    @property
    def states(self) -> Iterator[tuple[str, State]]:
        """The state columns' names with their states."""
        return zip(self.columns, self.aggregate.states, strict=True)


@dataclass(frozen=True)
class BoundView:
    """A view whose every expression is checked and typed."""

    keys: tuple[tuple[str, Expression], ...]
    where: Expression | None
    measures: tuple[BoundMeasure, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The keys' and measures' expressions, each meaning once."""
        used = [expression for _, expression in self.keys]
        used += [expression for measure in self.measures for expression in measure.inputs]
        return tuple({expression.canonical: expression for expression in used}.values())


@lru_cache(maxsize=1024)
def bind(view: View) -> BoundView:
    """Check the whole view against its source's event type.

    Raises DefinitionError naming the view, the part, the value and what would be valid.
    """
    place = f"view {view.name!r}" if view.name else "a view"
    _check_shape(view, place)
    fields, event = events_schema(view.source), view.source.event.__name__

    def expression(part: str, text: str) -> Expression:
        try:
            return bind_expression(text, fields, event)
        except DefinitionError as error:
            raise DefinitionError(f"{place}, {part}: {text!r} {error}") from error

    def condition(part: str, text: str) -> Expression:
        bound = expression(part, text)
        if bound.type.kind != "boolean":
            raise DefinitionError(f"{place}, {part}: {text!r} is of type {bound.type.sql}; a filter is BOOLEAN")
        return bound

    where = None if view.where is None else condition("where", view.where)
    keys = tuple((name, expression(f"key {name!r}", text)) for name, text in view.keys.items())
    measures: dict[str, BoundMeasure] = {}
    for name, measure in view.measures.items():
        if isinstance(measure, Derived):
            continue
        part, written = f"measure {name!r}", measure.inputs
        if isinstance(measure, Filtered):
            condition(part, measure.filter)
            # Its inputs hold the filter; what there is to say about them is said of what was written.
            written = measure.measure.inputs
            for text in written:
                expression(part, text)
        inputs = tuple(expression(part, text) for text in measure.inputs)
        try:
            aggregate = measure.bind([input_.type for input_ in inputs])
        except DefinitionError as error:
            raise DefinitionError(f"{place}, {part}: {', '.join(map(repr, written))} {error}") from error
        measures[name] = BoundMeasure(name, aggregate, inputs, _state_columns(name, aggregate.states))
    answers = {name: measure.aggregate for name, measure in measures.items()}
    for name, measure in view.measures.items():
        if isinstance(measure, Derived):
            try:
                derived, aggregate = bind_derived(measure.expression, answers)
            except DefinitionError as error:
                raise DefinitionError(f"{place}, measure {name!r}: {measure.expression!r} {error}") from error
            measures[name] = BoundMeasure(name, aggregate, derived=derived)
    _check_columns(place, [*view.keys, *(column for one in measures.values() for column in one.columns or (one.name,))])
    return BoundView(keys, where, tuple(measures[name] for name in view.measures))


def state_schema(view: View) -> pa.Schema:
    """The columns of the view's partials and batch states: keys, window bounds, states; the bounds are null for all time."""
    bound = bind(view)
    states = [pa.field(column, state.type) for measure in bound.measures for column, state in measure.states]
    return pa.schema([*(group.remove_metadata() for group in _group_fields(bound)), *states])


def answer_schema(view: View) -> pa.Schema:
    """The columns of the view's answers: keys, window bounds, measures; each field's metadata says its `kind`."""
    bound = bind(view)
    measures = [
        pa.field(measure.name, measure.aggregate.answer, metadata={"kind": measure.aggregate.kind}) for measure in bound.measures
    ]
    return pa.schema([*_group_fields(bound), *measures])


def approximations(view: View) -> dict[str, Approximation]:
    """The measures whose answers are not exact, and how far off they may be."""
    return {m.name: m.aggregate.approximate for m in bind(view).measures if m.aggregate.approximate is not None}


def group_columns(view: View) -> list[str]:
    """The columns that tell the rows of a view apart: its keys and window bounds."""
    return [*view.keys, *WINDOW_COLUMNS]


def _group_fields(bound: BoundView) -> list[pa.Field]:
    keys = [pa.field(name, key.type.arrow, metadata={"kind": key.type.kind}) for name, key in bound.keys]
    return [*keys, *(pa.field(name, TIMESTAMP, metadata={"kind": "time"}) for name in WINDOW_COLUMNS)]


def _state_columns(name: str, states: tuple[State, ...]) -> tuple[str, ...]:
    return (name,) if len(states) == 1 else tuple(f"{name}__{state.suffix}" for state in states)


def _check_shape(view: View, place: str) -> None:
    """What is wrong before any expression is looked at."""
    if not isinstance(view.source, Source):
        raise DefinitionError(f"{place}, source: {view.source!r} is not a Source")
    if not isinstance(view.window, Tumbling | AllTime):
        raise DefinitionError(f"{place}, window: {view.window!r} is not a window; windows: tumbling(...), all_time()")
    if not view.measures:
        raise DefinitionError(f"{place} has no measures; for example measures={{'n': count()}}")
    for name, measure in view.measures.items():
        if not _is_measure(measure):
            raise DefinitionError(f"{place}, measure {name!r}: {measure!r} is not a measure, such as count() or total('...')")
    for name in (*([view.name] if view.name else []), *view.keys, *view.measures):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DefinitionError(f"{place}: {name!r} is not a name: a letter, then letters, digits and underscores")


def _check_columns(place: str, columns: list[str]) -> None:
    """Every column needs a name of its own; Delta, Spark and DuckDB ignore case."""
    seen: dict[str, str] = {name: name for name in _RESERVED}
    for column in columns:
        if (other := seen.get(column.casefold())) is not None:
            raise DefinitionError(f"{place}: {column!r} is taken by {other!r}; keys, measures and their states share no name")
        seen[column.casefold()] = column


def _is_measure(measure: Any) -> bool:
    return not isinstance(measure, type) and hasattr(measure, "inputs") and callable(getattr(measure, "bind", None))
