"""Column lineage: the event's fields that each column of a view's answers is computed from."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from tandem.views.bound_view import BoundMeasure
from tandem.views.lookup.lookup import reading_events, with_lookups
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.measure import EVENT_TIME, LOG_ORDER, POSITION
from tandem.views.source.event import event_schema
from tandem.views.source.fields.event_time import EVENT_TIME_COLUMN
from tandem.views.source.prepare import prepared_schema
from tandem.views.source.source import Source, events_schema
from tandem.views.sql.expressions import Expression, bind_expression
from tandem.views.view import View, answer_schema, bind

How = Literal["identity", "transformation", "aggregation", "condition"]
"""A field as it is; a value made of it; many of its values made one; or a field that only decides which events count."""

_WINDOW: Final = ("window_start", "window_end", "window_state")


@dataclass(frozen=True)
class ColumnOrigin:
    """A field that a column reads, and how."""

    field: str
    how: How


@dataclass(frozen=True)
class LineageColumn:
    """A column of a view's answers: its type, the fields that it reads, and its expression in the definition."""

    name: str
    type: str
    origins: tuple[ColumnOrigin, ...]
    written: str


@dataclass(frozen=True)
class Lineage:
    """All columns of a view's answers; `filtered_by` decides which events any of them sees, `grouped_by` which share a row."""

    columns: tuple[LineageColumn, ...]
    filtered_by: tuple[str, ...]
    grouped_by: tuple[str, ...]


def lineage(view: View) -> Lineage:
    """The lineage that the definition gives. Behind a source's `prepare` any field of the event may have decided any column."""
    bound, schema = bind(view), answer_schema(view)
    made: dict[str, tuple[list[ColumnOrigin], str]] = {}
    for name, key in bound.keys:
        made[name] = (
            [ColumnOrigin(field, "identity" if key.column else "transformation") for field in sorted(key.fields)],
            key.text,
        )
    window = _window(view)
    for column in bound.placement.columns.answers:
        made[column.name] = ([ColumnOrigin(field, "transformation") for field in window], str(view.window))
    for name in _WINDOW:
        made.setdefault(name, ([ColumnOrigin(field, "transformation") for field in window], str(view.window)))
    aggregated = {one.name: _aggregated(view, one) for one in bound.measures if one.derived is None}
    for one in bound.measures:
        if one.derived is None:
            made[one.name] = (aggregated[one.name], str(view.measures[one.name]))
        else:
            # A derived measure reads measures that are not derived.
            origins = dict.fromkeys(origin for read in one.reads for origin in aggregated[read])
            made[one.name] = (list(origins), one.derived.text)
    columns = tuple(
        LineageColumn(field.name, str(field.type), tuple(_of_event(view.source, made[field.name][0])), made[field.name][1])
        for field in schema
        if field.name in made
    )
    where = [] if bound.where is None else sorted(bound.where.fields)
    keys = sorted({field for _, key in bound.keys for field in key.fields} | set(window))
    return Lineage(columns, _fields(view.source, where), _fields(view.source, keys))


def _window(view: View) -> list[str]:
    """The fields that decide in which windows an event is."""
    bound = bind(view)
    looked_at = {field for expression in bound.window_inputs for field in expression.fields}
    if not bound.placement.timing.bounded:
        return []
    return sorted(looked_at | (set(bound.placement.events.reads) if bound.placement.in_order else {view.source.time_column}))


def _aggregated(view: View, one: BoundMeasure) -> list[ColumnOrigin]:
    """The fields whose values are folded, then those of the measure's own filter."""
    written = view.measures[one.name]
    if not isinstance(written, Filtered):
        return [ColumnOrigin(field, "aggregation") for field in _read(one.inputs)]
    condition = _bound(view, written.filter).fields
    inner = {field for text in written.measure.inputs if isinstance(text, str) for field in _input(view, text)}
    # Any other input is a position or a time of the event.
    inner |= set(_read(one.inputs)) - condition - inner
    return [ColumnOrigin(field, "aggregation") for field in sorted(inner)] + [
        ColumnOrigin(field, "condition") for field in sorted(condition)
    ]


def _input(view: View, text: str) -> frozenset[str]:
    if text == EVENT_TIME:
        return frozenset({view.source.time_column})
    return frozenset() if text in (*POSITION, *LOG_ORDER) else _bound(view, text).fields


def _bound(view: View, text: str) -> Expression:
    lookups = bind(view).lookups
    fields = with_lookups(prepared_schema(view.source), lookups)
    return reading_events(bind_expression(text, fields, view.source.event.__name__), lookups)


def _read(inputs: tuple[Expression, ...]) -> list[str]:
    return sorted({field for expression in inputs for field in expression.fields})


def _of_event(source: Source, origins: list[ColumnOrigin]) -> list[ColumnOrigin]:
    if source.time_column == EVENT_TIME_COLUMN:  # no column of the event is its time, but the field that holds it is
        place = source.event_time.split(".")[0]
        origins = [replace(origin, field=place) if origin.field == EVENT_TIME_COLUMN else origin for origin in origins]
    if source.prepare is None or not origins:
        return [origin for origin in origins if origin.field in events_schema(source).names]
    return [ColumnOrigin(field, "transformation") for field in event_schema(source.event).names]


def _fields(source: Source, fields: list[str]) -> tuple[str, ...]:
    return tuple(origin.field for origin in _of_event(source, [ColumnOrigin(field, "transformation") for field in fields]))
