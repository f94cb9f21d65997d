"""An alert's definition bound to its view: which rows meet it, their labels and texts; what is refused before it runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from string import Formatter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tandem.serving.memory.differences import identity
from tandem.serving.memory.layer import MemoryLayout
from tandem.serving.read.row_filter import RowFilter, RowsWanted, row_filter
from tandem.serving.read.selection import BadSelection
from tandem.serving.sinks.alerts.episodes import AlertRow, AlertTerms, Place
from tandem.views.alert import Alert
from tandem.views.errors import DefinitionError
from tandem.views.instant import EPOCH, microseconds, utc_text
from tandem.views.kernel.label_windows import window_state
from tandem.views.kernel.rows import ordered, to_rows, written
from tandem.views.source.watermark import final_until
from tandem.views.view import View, answer_schema, bind
from tandem.views.windows.placement import WINDOW_COLUMNS, WINDOW_STATE

_NUMBER: Final = "_number"
_SAMPLES: Final = (
    (pa.types.is_boolean, True),
    (pa.types.is_integer, -(1 << 63)),
    (pa.types.is_floating, 1.5),
    (pa.types.is_decimal, Decimal(1)),
    (pa.types.is_string, "a"),
    (pa.types.is_temporal, EPOCH),
)
"""A value of the types that a format is tried with: of integers the furthest, which is not a character's number."""


@dataclass(frozen=True)
class BoundAlert:
    """An alert of a view as it is published; bind it by `bind_alert`. `columns` tell a row from all others."""

    alert: Alert
    view: View
    terms: AlertTerms
    columns: tuple[str, ...]
    when: RowFilter
    clear: RowFilter | None

    def rows(self, answer: pa.Table, wanted: Collection[Place]) -> list[AlertRow]:
        """The rows of an answer that meet the condition, and those at these places."""
        table = ordered(self.view, answer)
        numbered = table.append_column(_NUMBER, pa.array(np.arange(table.num_rows)))
        met, over = self._numbers(self.when, numbered), self._numbers(self.clear, numbered)
        chosen = sorted(met | self._at(table, wanted))
        # In order already, so that `to_rows` keeps the order.
        some = table.take(pa.array(chosen, pa.int64()))
        rows = zip(chosen, some.to_pylist(), to_rows(self.view, some), strict=True)
        return [self._row(values, row, meets=number in met, clears=number in over) for number, values, row in rows]

    def places(self, rows: pa.Table) -> list[Place]:
        """The places of rows."""
        schema = answer_schema(self.view)
        columns = [written(rows[name].combine_chunks(), schema.field(name)) for name in self.columns]
        places = zip(*columns, strict=True) if columns else [()] * rows.num_rows
        return [tuple(zip(self.columns, place, strict=True)) for place in places]

    def _numbers(self, condition: RowFilter | None, numbered: pa.Table) -> set[int]:
        return set(range(numbered.num_rows) if condition is None else condition.rows(numbered)[_NUMBER].to_pylist())

    def _at(self, answer: pa.Table, wanted: Collection[Place]) -> set[int]:
        return {number for number, place in enumerate(self.places(answer)) if place in wanted} if wanted else set()

    def _row(self, values: Mapping[str, Any], row: Mapping[str, Any], *, meets: bool, clears: bool) -> AlertRow:
        start, end = (None if values.get(name) is None else microseconds(values[name]) for name in WINDOW_COLUMNS)
        place = tuple((name, row[name]) for name in self.columns)
        text = text_of(self.alert, values)
        return AlertRow(place, row, text, start, end, str(values[WINDOW_STATE.name]), meets, clears)


def bind_alert(alert: Alert, view: View) -> BoundAlert:
    """The alert of a view. Raises DefinitionError for an invalid condition or text."""
    when = _condition(alert, "when", alert.when, view)
    clear = None if alert.clear is None else _condition(alert, "clear", alert.clear, view)
    _check_formats(alert, view)
    placement = bind(view).placement

    def label(row: AlertRow, watermark: int | None) -> str:
        if placement.in_order:
            return row.label
        final = None if watermark is None else final_until(view.source, watermark, placement.timing.grace)
        return window_state(row.end, watermark, final)

    terms = AlertTerms(alert.name, view.name, frozenset(alert.states), alert.hold, alert.within, label)
    return BoundAlert(alert, view, terms, tuple(identity(MemoryLayout(view, 0))), when, clear)


def text_of(alert: Alert, values: Mapping[str, Any]) -> str:
    """The alert's text with a row's values; its name and condition if it has none."""
    if not alert.text:
        return f"{alert.name}: {alert.when}"
    parts = []
    for literal, column, form, _ in Formatter().parse(alert.text):
        parts.append(literal)
        if column is not None:
            parts.append(_text(values[column], form or ""))
    return "".join(parts)


def _text(value: Any, form: str) -> str:
    if value is None:
        return "NULL"
    return utc_text(value) if not form and isinstance(value, datetime) else format(value, form)


def _condition(alert: Alert, part: str, text: str, view: View) -> RowFilter:
    try:
        return row_filter(view, RowsWanted(where=text))
    except BadSelection as error:
        raise DefinitionError(f"alert {alert.name!r}: {str(error).replace('where ', f'{part} ', 1)}") from error


def _check_formats(alert: Alert, view: View) -> None:
    """Refuse a format that the type of its column does not take, such as a share of a text."""
    schema = answer_schema(view)
    for _, column, form, _ in Formatter().parse(alert.text):
        if not column or not form:
            continue
        kind = schema.field(column).type
        fault = _fault(kind, form)
        if fault:
            raise DefinitionError(f"alert {alert.name!r}: text {alert.text!r}: {{{column}:{form}}} of type {kind}: {fault}")


def _fault(kind: pa.DataType, form: str) -> str:
    """Why values of a type do not take a format; empty if they do."""
    sample = next((value for fits, value in _SAMPLES if fits(kind)), None)
    if sample is None:
        return "it takes no format"
    try:
        format(sample, form)
    except (ValueError, OverflowError) as error:
        return str(error)
    return ""
