"""A view: keys, a window and measures over the events of a source, and the columns of its tables."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, lru_cache
from types import FunctionType
from typing import Any, Final, Self

import pyarrow as pa

from tandem.views.bound_view import BoundMeasure, BoundView
from tandem.views.column_names import check_columns, state_columns
from tandem.views.definition_text import literal
from tandem.views.errors import DefinitionError, listed
from tandem.views.lookup.lookup import Lookup, check_place, expression_inputs, lookups_behind, reading_events
from tandem.views.measures.custom import CustomMeasure, told
from tandem.views.measures.derived import Derived, bind_derived
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.measure import EVENT_TIME, LOG_ORDER, PLACE, POSITION, Approximation, Measure
from tandem.views.source.event import TIMESTAMP, event_fields, is_label
from tandem.views.source.log_order import GENERATION, place_sql
from tandem.views.source.rows_source import RowsOfTable
from tandem.views.source.source import Source
from tandem.views.source.united_source import OneOrSeveral
from tandem.views.sql.engine import quoted
from tandem.views.sql.expressions import Expression, bind_expression
from tandem.views.value_forms import MAPPINGS, display_text, not_a_mapping, not_a_measure, not_a_text, not_a_window
from tandem.views.windows import AllTime, Placement, Window
from tandem.views.windows.placement import COMPLETE, WINDOW_STATE

_PLACE_KINDS: Final = {TIMESTAMP: "time", pa.string(): "text", pa.int64(): "integer"}
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_VERSION: Final = "batch_version"


@dataclass(frozen=True, eq=False)
class View:
    """An aggregate over a source's events, which batch, speed and serving compute alike.

    * `source`: whose events it reads; a tuple of sources for one answer over the events of several; `table.rows()` for the rows
      that a table has now.
    * `keys`: expressions by name. Each combination of their values has its own answers; NULL is a value like any other.
    * `window`: which events of a key share an answer.
    * `measures`: the aggregates over the events of a key and window, by name.
    * `lookup`: by name the row of a table for each event, whose columns expressions read as `name.column`.
    * `where`: a condition; events for which it is not true are left out, and no other expression is evaluated for them.
    * `keep`: how long windows stay. A window that ends at least this long before the greatest event time below the cut leaves the
      answers, and events that come for it later do not bring it back. Log time decides, no clock. The default keeps all windows.
    * `name`: the variable's name in definitions.py unless given.

    For readers only; they change no number:

    * `doc`: what the view is for.
    * `docs`, `units`: the description and the unit of keys and measures, by name. A key that is a field has the field's own
      unless given here.
    * `tolerances`: by measure, how far the batch's answer may be from the served one, relative to the larger of both, before
      an audit reports a difference.
    * `expect`: conditions that rows meet before they are published, each with what else happens: "stop" publishes nothing,
      "warn" reports it (tandem.views.expectation).
    """

    source: OneOrSeveral = OneOrSeveral()  # noqa: RUF009  a descriptor, which keeps nothing
    keys: Mapping[str, str] = field(default_factory=dict)
    window: Window = field(default_factory=AllTime)
    measures: Mapping[str, Measure] = field(default_factory=dict)
    where: str | None = None
    name: str = ""
    doc: str = ""
    docs: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    tolerances: Mapping[str, float] = field(default_factory=dict)
    keep: timedelta | None = None
    lookup: Mapping[str, Lookup] = field(default_factory=dict)
    expect: Mapping[str, str] = field(default_factory=dict)

    def __new__(cls, source: Any = None, *_: Any, **__: Any) -> Self:
        """The view; of another kind if its source is the rows of a table."""
        kind: Any = source.kind if cls is View and isinstance(source, RowsOfTable) else cls
        return object.__new__(kind)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        """Equal in every part; the order of keys and measures counts, because it is the order of columns."""
        return isinstance(other, View) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        try:
            return hash(self._parts())
        except (TypeError, AttributeError) as error:
            raise DefinitionError(self._misfit() or str(error)) from error

    def _misfit(self) -> str | None:
        """Which part is not the dict that it should be, or has a value that can change; None if another part is wrong."""
        for part in MAPPINGS:
            if not isinstance(getattr(self, part), Mapping):
                return not_a_mapping(part, getattr(self, part))
        keys: Mapping[str, Any] = self.keys
        for name, value in keys.items():
            if not isinstance(value, str):
                return f"key {name!r}: {value!r} {not_a_text(value)}"
        for name, measure in self.measures.items():
            inner = measure.measure if isinstance(measure, Filtered) else measure
            for value in vars(inner).values() if hasattr(inner, "__dict__") else ():
                if isinstance(value, list | dict | set):
                    return f"measure {name!r}: {value!r} {not_a_text(value)}"
        return None

    def __getstate__(self) -> dict[str, object]:
        """The fields: another process hashes texts differently."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def binding(self) -> "BoundView":
        """The view with every expression checked and typed; use `bind`, which caches it."""
        return BINDINGS.get(type(self.source), _binding)(self)

    def _parts(self) -> tuple[object, ...]:
        mappings = (self.keys, self.measures, self.docs, self.units, self.tolerances, self.lookup, self.expect)
        return (
            self.source,
            self.window,
            self.where,
            self.name,
            self.doc,
            self.keep,
            *(tuple(mapping.items()) for mapping in mappings),
        )


BINDINGS: Final[dict[type[Source], Callable[[View], BoundView]]] = {}
"""How views over a kind of source are bound, if not as views over one source are."""


@lru_cache(maxsize=1024)
def bind(view: View) -> BoundView:
    """Check the whole view against its source's event type, or against the columns that the source's `prepare` returns.

    Raises DefinitionError naming the view, the part, the value and what would be valid.
    """
    return view.binding()


def _binding(view: View) -> BoundView:
    place = f"view {view.name!r}" if view.name else "a view"
    _check_shape(view, place)
    fields, event, lookups = expression_inputs(view.source, view.lookup, place)
    in_log = fields.append(GENERATION)

    def expression(part: str, text: str, fields: pa.Schema = fields) -> Expression:
        try:
            return reading_events(bind_expression(text, fields, event), lookups)
        except DefinitionError as error:
            raise DefinitionError(f"{place}, {part}: {display_text(text)} {error}") from error

    def condition(part: str, text: str, what: str = "filter") -> Expression:
        bound = expression(part, text)
        if bound.type.kind != "boolean":
            raise DefinitionError(f"{place}, {part}: {text!r} is of type {bound.type.sql}; a {what} is BOOLEAN")
        return bound

    where = None if view.where is None else condition("where", view.where)
    in_filter = lookups_behind(bind_expression(view.where or "TRUE", fields, event), lookups)
    in_rows = in_filter.union(name for name, lookup in view.lookup.items() if lookup.reject)
    keys = tuple((name, expression(f"key {name!r}", text)) for name, text in view.keys.items())
    looked_at = tuple(expression("window", text) for text in view.window.inputs)
    for text in (*view.keys.values(), *view.window.inputs):
        in_rows |= lookups_behind(bind_expression(text, fields, event), lookups)
    try:
        placement = view.window.bind(view.source, [input_.type for input_ in looked_at])
    except DefinitionError as error:
        raise DefinitionError(f"{place}, window: {', '.join(map(repr, view.window.inputs))} {error}") from error
    _check_keep(view, placement, place)
    check_place(view.lookup, place, "a keep" if view.keep else "")
    measures: dict[str, BoundMeasure] = {}
    for name, measure in view.measures.items():
        if isinstance(measure, Derived):
            continue
        part, inner = f"measure {name!r}", measure
        if isinstance(measure, Filtered):
            condition(part, measure.filter)
            inner = measure.measure
        if isinstance(inner, CustomMeasure):
            try:
                inner.check()
            except DefinitionError as error:
                raise DefinitionError(f"{place}, {part}: {error}") from error
        for text in getattr(inner, "conditions", ()):
            condition(part, text, "condition")
        written = [text for text in inner.inputs if text not in (EVENT_TIME, *POSITION, *LOG_ORDER)]
        if inner is not measure:
            # Its inputs hold the filter; errors quote the expressions as they were written.
            for text in written:
                expression(part, text)
        if getattr(inner, "draws_events", False) and view.source.prepare is not None:
            raise DefinitionError(
                f"{place}, {part}: draws events, and the rows that {view.source.prepare.__name__} makes of one event are not "
                "drawn apart; take first_k(...) or a source without prepare"
            )
        if getattr(inner, "reads_values", False) and view.source.prepare is not None:
            raise DefinitionError(
                f"{place}, {part}: pairs read values, and the rows that {view.source.prepare.__name__} makes of one event are "
                "one event of a pair; take a source without prepare"
            )
        if getattr(inner, "reads_other_rows", False) and view.source.prepare is not None:
            raise DefinitionError(
                f"{place}, {part}: a condition reads other rows, and those that {view.source.prepare.__name__} makes of one "
                "event have no order; take a source without prepare"
            )
        inputs = tuple(expression(part, _event_sql(view.source, text), in_log) for text in measure.inputs)
        try:
            aggregate = measure.bind([input_.type for input_ in inputs])
            if isinstance(inner, CustomMeasure):
                aggregate = told(aggregate, f"{place}, {part}")
        except DefinitionError as error:
            raise DefinitionError(f"{place}, {part}: {', '.join(map(repr, written))} {error}") from error
        measures[name] = BoundMeasure(name, aggregate, inputs, state_columns(name, aggregate.states))
    add_derived_measures(view, measures, place)
    check_columns(place, names_of_columns(placement), [*view.keys, *columns_of(measures.values())])
    bound = tuple(measures[name] for name in view.measures)
    return BoundView(
        keys, where, bound, placement, looked_at, lookups=lookups, lookups_of_filter=in_filter, lookups_of_rows=in_rows
    )


def add_derived_measures(view: View, measures: dict[str, BoundMeasure], place: str) -> None:
    """Add the view's derived measures to the others, which they read. Raises DefinitionError."""
    answers = {name: measure.aggregate for name, measure in measures.items()}
    for name, measure in view.measures.items():
        if isinstance(measure, Derived):
            try:
                derived, aggregate = bind_derived(measure.expression, answers)
            except DefinitionError as error:
                raise DefinitionError(f"{place}, measure {name!r}: {measure.expression!r} {error}") from error
            measures[name] = BoundMeasure(name, aggregate, derived=derived)


def columns_of(measures: Iterable[BoundMeasure]) -> list[str]:
    """The names of columns that measures use: their own, and their states'."""
    return [column for one in measures for column in dict.fromkeys((one.name, *one.columns))]


def names_of_columns(placement: Placement) -> set[str]:
    """The names of columns that no key and no measure of a view with these windows can have."""
    return {_VERSION, WINDOW_STATE.name, *(column.name for column in (*placement.columns.states, *placement.columns.answers))}


@lru_cache(maxsize=1024)
def state_schema(view: View) -> pa.Schema:
    """The columns of the view's partials and batch states: keys, what places a row in its window, states."""
    bound = bind(view)
    return _schema(view, bound.placement.columns.states, bound.states)


def arranged_schema(view: View) -> pa.Schema:
    """The columns of states after `arrange`, as rows of an answer."""
    bound = bind(view)
    placed = (*bound.placement.columns.answers, *((COMPLETE,) if bound.placement.in_order else ()))
    return _schema(view, placed, bound.states)


@lru_cache(maxsize=1024)
def answer_schema(view: View) -> pa.Schema:
    """The columns of the view's answers: keys, window with its state, measures; metadata says `kind`, `unit` and `doc`."""
    bound = bind(view)
    keys = [pa.field(name, key.type.arrow, metadata=_metadata(view, name, key.type.kind)) for name, key in bound.keys]
    start, end, *others = bound.placement.columns.answers
    window = [column.with_metadata({"kind": _PLACE_KINDS[column.type]}) for column in (start, end, WINDOW_STATE, *others)]
    measures = [
        pa.field(measure.name, measure.aggregate.answer, metadata=_metadata(view, measure.name, measure.aggregate.kind))
        for measure in bound.measures
    ]
    return pa.schema([*keys, *window, *measures])


def described(view: View, name: str) -> dict[str, str]:
    """The `unit` and the `doc` of a key or measure, if it has them."""
    columns = {key: expression.column for key, expression in bind(view).keys}
    own = next((one for one in event_fields(view.source.event) if one.name == columns.get(name)), None)
    found = {
        "unit": view.units.get(name) or (own.unit if own else ""),
        "doc": view.docs.get(name) or (own.doc if own else ""),
    }
    return {what: text for what, text in found.items() if text}


def _event_sql(source: Source, text: Any) -> Any:
    """An input, with the source's columns in place of the inputs for an event's time and place."""
    if not isinstance(text, str):
        return text
    return text.replace(EVENT_TIME, quoted(source.time_column)).replace(PLACE, place_sql(source))


def _metadata(view: View, name: str, kind: str) -> dict[str, str]:
    return {"kind": kind, **described(view, name)}


def approximations(view: View) -> dict[str, Approximation]:
    """The measures whose answers are not exact, with their possible errors."""
    return {m.name: m.aggregate.approximate for m in bind(view).measures if m.aggregate.approximate is not None}


def group_columns(view: View) -> list[str]:
    """The columns that identify a row of an answer: keys and window."""
    return [*view.keys, *(column.name for column in bind(view).placement.columns.answers)]


def shared_columns(view: View) -> list[str]:
    """The columns by which states can be split: only states with equal values there are merged or arranged together."""
    placement = bind(view).placement
    apart = placement.independent and placement.steps.arrange is None  # A slice is part of several windows.
    return [*view.keys, *(column.name for column in placement.columns.states if apart)]


def _schema(view: View, window: Sequence[pa.Field], states: list[tuple[str, pa.DataType]]) -> pa.Schema:
    keys = [pa.field(name, key.type.arrow) for name, key in bind(view).keys]
    return pa.schema([*keys, *window, *(pa.field(name, type_) for name, type_ in states)])


def _check_shape(view: View, place: str) -> None:
    """Raise DefinitionError for what is wrong apart from expressions."""
    if isinstance(view.source, View):
        raise DefinitionError(f"{place}, source: a view is not a Source; of a table take its rows: source=price_of.rows()")
    if not isinstance(view.source, Source):
        raise DefinitionError(f"{place}, source: {view.source!r} is not a Source")
    window: Any = view.window
    if isinstance(window, FunctionType) or not type(window).__module__.startswith("tandem.views.windows."):
        raise DefinitionError(f"{place}, window: {not_a_window(window)}")
    if not view.measures:
        raise DefinitionError(f"{place} has no measures; for example measures={{'n': count()}}")
    for name, measure in view.measures.items():
        custom = isinstance(measure, CustomMeasure)  # whose `inputs` may raise
        if isinstance(measure, type) or not (custom or (hasattr(measure, "inputs") and callable(getattr(measure, "bind", None)))):
            raise DefinitionError(f"{place}, measure {name!r}: {not_a_measure(measure)}")
    for name in (*([view.name] if view.name else []), *view.keys, *view.measures):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DefinitionError(f"{place}: {name!r} is not a name: a letter, then letters, digits and underscores")
    if not isinstance(view.doc, str):
        raise DefinitionError(f"{place}, doc: {view.doc!r} is not a text")
    named = [*view.keys, *view.measures]
    for part, texts in (("docs", view.docs), ("units", view.units)):
        for name, text in texts.items():
            if name not in named:
                raise DefinitionError(f"{place}, {part}: no key or measure {name!r}; there are {listed(str(name), named)}")
            if not is_label(text):
                raise DefinitionError(f"{place}, {part}: {name!r} is given {text!r}, which is not a text of one line")
    for name, tolerance in view.tolerances.items():
        if name not in view.measures:
            raise DefinitionError(f"{place}, tolerances: no measure {name!r}; there are {listed(str(name), view.measures)}")
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
            raise DefinitionError(
                f"{place}, tolerances: {name!r} is given {tolerance!r}; it is a part of the larger answer, such as 0.05, below 1"
            )


def _check_keep(view: View, placement: Placement, place: str) -> None:
    """Raise DefinitionError for an invalid `keep`, or for windows that do not each end at a time of their own."""
    if view.keep is None:
        if view.source.keep is not None:
            raise DefinitionError(
                f"{place} has no keep, so it needs all records, but source {view.source.name} keeps them for "
                f"{literal(view.source.keep)}; give the view a keep, too, or the source none"
            )
        return
    if not isinstance(view.keep, timedelta) or view.keep <= timedelta(0):
        raise DefinitionError(f"{place}, keep: {view.keep!r} is not a positive timedelta, such as timedelta(days=400)")
    if placement.timing.slice_at is None or placement.steps.arrange is not None:
        raise DefinitionError(
            f"{place}, keep: window {view.window} keeps all its windows: only windows that do not overlap and that begin and end "
            "by the clock can leave, such as tumbling(days=1) or calendar(...)"
        )
