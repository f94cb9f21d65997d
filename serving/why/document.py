"""What is behind a row as JSON, and all its events as a table."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.rows_at import rows_at
from tandem.ledger.log.positions import LOG_START, ranges
from tandem.serving.why.changed import LISTED as PLACES
from tandem.serving.why.changed import ChangedRow, WhyChanged
from tandem.serving.why.evidence import SourceEvidence
from tandem.serving.why.near_misses import NearMisses
from tandem.serving.why.why import Why
from tandem.views.arrow import arrays, python_values
from tandem.views.instant import APPEND_TIME, utc_text
from tandem.views.kernel.rows import writer, written
from tandem.views.measures.filtered import Filtered
from tandem.views.oracle.counted_events import WHEN_AND_WHERE, CountedRow, Place
from tandem.views.read_columns import columns
from tandem.views.source.source import position_columns
from tandem.views.view import View, answer_schema, bind

LAYER: Final = pa.field("_layer", pa.string())
AFTER_FINAL: Final = pa.field("_after_final", pa.bool_())
"""Whether the event arrived when the row's window had been labelled final."""

LISTED: Final = 3
"""The first and the last events that are shown unless more are asked for."""

_MOST_LISTED: Final = 100
"""The most duplicates, rejects and filtered events that the document lists; all are counted."""

_T = TypeVar("_T")


def place_text(at: Place) -> str:
    """A place in the log as `tandem quarantine` prints it."""
    topic, partition, offset, index = at
    return f"{topic}/{partition}:{offset}{f'#{index}' if index else ''}"


def events_table(why: Why, evidence: SourceEvidence, measures: Sequence[str] = ()) -> pa.Table:
    """The events of a source that the row, or some of its measures, count.

    The columns are place, times, layer, and the fields and look-ups that the view reads.
    """
    rows = why.events_of(evidence, measures)
    numbers = np.array([row.number for row in rows], np.int64)
    of, source = evidence.prepared, evidence.part.source
    wanted = [*position_columns(source), source.time_column, APPEND_TIME, *_fields(evidence)]
    table = of.select([name for name in dict.fromkeys(wanted) if name in of.column_names])
    table = table.take(arrays.from_numpy(numbers, pa.int64()))
    wide = pa.schema([field.with_type(pa.int64()) if pa.types.is_int32(field.type) else field for field in table.schema])
    table = table.cast(wide)  # as rows have integers
    layers = np.where(evidence.below[numbers], "batch", "speed") if len(numbers) else np.array([], "U5")
    table = table.append_column(LAYER, python_values.array(layers.tolist(), LAYER.type))
    return table.append_column(AFTER_FINAL, arrays.booleans(_after_final(why, evidence, table)))


def _fields(evidence: SourceEvidence) -> list[str]:
    """The names of the columns that the view reads of each event, look-ups among them."""
    part = evidence.part
    read = columns(part) | {name for name in part.source.identity if name in evidence.prepared.column_names}
    names = [name for name in evidence.prepared.column_names if name in read or name in part.lookup]
    if part.source.prepare is not None:
        names = [name for name in evidence.prepared.column_names if not name.startswith("_")]
    return [name for name in names if not name.startswith("_") and name != part.source.time_column]


def _after_final(why: Why, evidence: SourceEvidence, table: pa.Table) -> Any:
    """Which events are at or above the position at which the window was final."""
    if why.final is None:
        return np.zeros(table.num_rows, dtype=bool)
    position = why.final.positions.get(evidence.part.source.name, LOG_START)
    return ~rows_at(table, EVENTS, ranges(LOG_START, position))


def to_json(why: Why, *, now: datetime, listed: int | None = None, measures: Sequence[str] = ()) -> dict[str, Any]:
    """The document of `tandem why --json`; `listed` is the number of events to list, the first and last few if None.

    With `measures` these are shown, and the events that they read.
    """
    names = [*(measures or why.view.measures)]
    events = {evidence.part.source.name: events_table(why, evidence, measures) for evidence, _ in why.sources}
    layers = [layer for table in events.values() for layer in table[LAYER.name].to_pylist()]
    start, end = why.window
    return {
        "view": why.view.name,
        "key": dict(why.key),
        "window": {"start": _time(start), "end": _time(end), "state": why.state},
        "row": None if why.row is None else dict(why.row),
        "agrees": why.agrees,
        "measures": [
            {"measure": check.measure, "answer": check.answer, "again": check.again, "verdict": check.verdict}
            for check in why.checks
            if check.measure in names
        ],
        "layers": {
            layer: {"events": layers.count(layer), "row": None if row is None else dict(row)} for layer, row in why.layers.items()
        },
        "sources": {
            evidence.part.source.name: _source(
                why.events_of(evidence, measures), evidence, near, events[evidence.part.source.name], (listed, names)
            )
            for evidence, near in why.sources
        },
        "final_since": None if why.final is None else why.final.to_json(),
        "may_change": [*why.may_change],
        "erased": why.erased,
        "provenance": why.provenance.to_json(now=now),
    }


def changes_to_json(changed: WhyChanged) -> dict[str, Any]:
    """The document of `tandem why-changed --json`."""
    view = changed.second.view
    return {
        "view": view.name,
        "between": [changed.first.label, changed.second.label],
        "rows": [_row_difference((changed.first.view, view), row) for row in changed.rows],
        "definition": [*changed.definition],
        "kept_from": _time(changed.second.kept_from),
        "erased": changed.erased,
    }


def _row_difference(views: tuple[View, View], row: ChangedRow) -> dict[str, Any]:
    then, now = map(answer_schema, views)
    return {
        "row": {name: writer(now.field(name))(value) for name, value in row.group.items()},
        "measures": [
            {
                "measure": each.measure,
                "before": writer(then.field(each.measure))(each.before),
                "after": writer(now.field(each.measure))(each.after),
                "parts": each.parts and {cause: writer(now.field(each.measure))(share) for cause, share in each.parts.items()},
            }
            for each in row.differences
        ],
        "events": {"number": len(row.events), "late": row.late, "first": [place_text(at) for at in row.events[:PLACES]]},
    }


def _source(
    rows: Sequence[CountedRow],
    evidence: SourceEvidence,
    near: NearMisses,
    table: pa.Table,
    chosen: tuple[int | None, Sequence[str]],
) -> dict[str, Any]:
    listed, names = chosen
    shown = places_to_show(len(rows), listed)
    return {
        "events": len(rows),
        "after_final": sum(table[AFTER_FINAL.name].to_pylist()),
        "listed": [_event(evidence, rows[number], table, number, names) for number in shown],
        "duplicates": _some(
            evidence.duplicates,
            lambda each: {"at": place_text(each.at), "time": utc_text(each.time), "counts": place_text(each.counts)},
        ),
        "rejected": _some(
            evidence.rejected, lambda each: {"at": place_text(each.at), "time": _time(each.time), "reason": each.reason}
        ),
        "filtered": _some(evidence.filtered, place_text),
        "before_start": evidence.early,
        "near_misses": {
            "rejects": near.rejects,
            "number": near.number,
            "first": [{"at": place_text(each.at), "reason": each.reason, "detail": each.detail} for each in near.first],
        },
        "read": {**evidence.read.to_json(), "topic_records": evidence.topic_records},
    }


def _some(every: Sequence[_T], write: Callable[[_T], Any]) -> dict[str, Any]:
    return {"number": len(every), "first": [write(each) for each in every[:_MOST_LISTED]]}


def places_to_show(rows: int, listed: int | None) -> list[int]:
    """The numbers of the rows that are shown: the first ones, or the first and last few."""
    if listed is not None:
        return [*range(min(rows, listed))]
    return [*range(rows)] if rows <= 2 * LISTED else [*range(LISTED), *range(rows - LISTED, rows)]


def _event(evidence: SourceEvidence, row: CountedRow, table: pa.Table, number: int, names: Sequence[str]) -> dict[str, Any]:
    shown = table.slice(number, 1)
    columns_ = {name: written(arrays.whole(shown[name]), shown.schema.field(name))[0] for name in shown.column_names}
    return {
        "at": place_text(row.place),
        "time": _time(row.at),
        "appended": columns_.get(APPEND_TIME),
        "layer": columns_[LAYER.name],
        "after_final": columns_[AFTER_FINAL.name],
        "fields": {name: columns_[name] for name in _fields(evidence) if name in columns_},
        "reads": _reads(evidence, row, names),
    }


def _reads(evidence: SourceEvidence, row: CountedRow, names: Sequence[str]) -> Mapping[str, list[Any]]:
    """The values that each measure reads of the event; nothing of a measure whose filter leaves it out."""
    reads = {}
    for measure in bind(evidence.part).measures:
        if measure.name in names and measure.name in row.inputs:
            of = evidence.part.measures[measure.name]
            # A filter is the first input of its measure, and no value that the measure reads.
            texts, first = (of.measure.inputs, 1) if isinstance(of, Filtered) else (of.inputs, 0)
            inputs = zip(texts, measure.inputs[first:], strict=True)
            types = [each.type.arrow for text, each in inputs if text not in WHEN_AND_WHERE]
            values = zip(row.inputs[measure.name], types, strict=True)
            reads[measure.name] = [written(python_values.array([value], kind), pa.field("", kind))[0] for value, kind in values]
    return reads


def _time(at: datetime | None) -> str | None:
    return None if at is None else utc_text(at)
