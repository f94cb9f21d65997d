r"""The kernel's prepare: a function of the project makes the rows that views read from each event.

    def words(lines: pa.Table) -> pa.Table:
        split = pc.split_pattern_regex(lines["text"].combine_chunks(), r"\s+")
        found = lines.take(pc.list_parent_indices(split)).append_column("word", pc.list_flatten(split))
        return found.filter(pc.not_equal(found["word"], ""))

    lines = Source(topic="lines", event=Line, event_time="at", prepare=words)

The function gets a table of events with the columns of events_schema(source) and returns a table: any number of rows for each
event, which depend on that event alone. Every row has the position of its event, and an event time, which may differ. Duplicates,
lateness and the number of events are determined before, from the events.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache, partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.arrays import halved
from tandem.views.arrow.python_values import do_without_pandas, scalar
from tandem.views.errors import DefinitionError, said_by
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.log_order import with_generation
from tandem.views.source.rows_source import RowsSource
from tandem.views.source.source import Prepare, Source, events_schema, position_schema
from tandem.views.source.value_types import field_kind

_TYPES: Final = (
    "bool, int64, float64, string, binary, date32, timestamp('us', 'UTC'), decimal128, lists, maps and structs of them"
)
_CALENDAR: Final = {
    pa.date32(): (date.min, date.max),
    TIMESTAMP: (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
}


@dataclass(frozen=True)
class Prepared:
    """`events` as prepared_schema(source) has them, with their generations; `failed` events could not be prepared: `failing`."""

    events: pa.Table
    failed: int = 0
    failing: pa.Table | None = None


def prepare(source: Source, events: pa.Table, generations: Sequence[str] = ()) -> Prepared:
    """The rows that views read, made of events that `deduplicate` has kept; the events themselves if the source has no `prepare`.

    Each with its generation (see tandem.views.source.log_order.with_generation).

    An event for which the function raises, or returns rows that prepared_schema(source) does not allow, fails alone. The split of
    the events makes no difference if the function treats each by itself.
    """
    if source.prepare is None:
        return Prepared(with_generation(events, generations))
    schema = prepared_schema(source)
    if not events.num_rows:
        return Prepared(with_generation(schema.empty_table()))
    given = events.select(events_schema(source).names)
    made = [*halved(partial(_made, source, source.prepare, schema), given, _is_of_events)]
    prepared = pa.concat_tables([schema.empty_table(), *(rows for _, rows in made if rows is not None)])
    failing = [piece for piece, rows in made if rows is None]
    return Prepared(with_generation(prepared, generations), len(failing), pa.concat_tables(failing) if failing else None)


@lru_cache(maxsize=256)
def prepared_schema(source: Source) -> pa.Schema:
    """The columns that views read: those that the source's function returns for a table without events.

    Position and event time are among them. Raises DefinitionError if the function fails for that table, or returns a
    column of a type that views do not support.
    """
    if isinstance(source, RowsSource):
        return source.columns
    given = events_schema(source)
    if source.prepare is None:
        return given
    name = f"prepare {source.prepare.__name__}"
    do_without_pandas()
    try:
        made = source.prepare(given.empty_table())
    except (Exception, SystemExit) as error:
        raise DefinitionError(f"{name} failed for a table without events: {said_by(error)}") from error
    if not isinstance(made, pa.Table):
        raise DefinitionError(f"{name} returned a {type(made).__name__} for a table without events; expected a pyarrow.Table")
    if made.num_rows:
        raise DefinitionError(f"{name} returned {made.num_rows} rows for a table without events; expected no rows")
    kept = list(dict.fromkeys((*position_schema(source).names, source.time_column)))
    if lost := [column for column in kept if column not in made.column_names]:
        raise DefinitionError(f"{name} returns no column {lost[0]!r}; every row needs its event's {', '.join(map(repr, kept))}")
    names: set[str] = set()
    for field in made.schema:
        if field.name.casefold() in names:
            raise DefinitionError(
                f"{name} returns two columns {field.name!r}; names must differ in more than case, which SQL ignores"
            )
        names.add(field.name.casefold())
        _check_column(name, field, given, source.time_column)
    return pa.schema([(field.name, field.type) for field in made.schema])


def _check_column(name: str, field: pa.Field, given: pa.Schema, event_time: str) -> None:
    if field.name.startswith("_") and field.name not in given.names:
        raise DefinitionError(f"{name} returns a column {field.name!r}; the name of a new column must not start with _")
    if field.name.startswith("_") or field.name == event_time:
        wanted = given.field(field.name).type
        if field.type != wanted:
            raise DefinitionError(f"{name} returns column {field.name!r} as {field.type}; expected type {wanted}")
    elif field_kind(field.type) is None:
        raise DefinitionError(f"{name} returns column {field.name!r} as {field.type}; cast it to one of {_TYPES}")


def _made(source: Source, function: Prepare, schema: pa.Schema, events: pa.Table) -> pa.Table:
    """Call the function with events. Raises if the result breaks its contract, and whatever the function raises."""
    do_without_pandas()
    made = function(events.combine_chunks())
    if sorted(made.column_names) != sorted(schema.names):
        raise ValueError(f"columns {made.column_names} are not {schema.names}")
    # Arrow infers types from values, such as null for a column without values.
    rows = made.select(schema.names).cast(schema)
    rows.validate(full=True)
    if rows[source.time_column].null_count:
        raise ValueError(f"a row has no {source.time_column}")
    for column in rows.columns:
        if column.type in _CALENDAR and not _within_calendar(column):
            raise ValueError("a time is outside the years 1 to 9999")
    positions = position_schema(source).names
    known = events.select(positions)
    if rows.select(positions).join(known, positions, join_type="left anti", use_threads=False).num_rows:
        raise ValueError("a row has a position that no event has")
    return rows


def _within_calendar(column: pa.ChunkedArray) -> bool:
    low, high = (scalar(bound, column.type) for bound in _CALENDAR[column.type])
    inside = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
    return bool(pc.all(inside, min_count=0).as_py())


def _is_of_events(error: BaseException) -> bool:
    """Raise errors again that are not the event's: out of memory, interrupt."""
    return not isinstance(error, MemoryError | KeyboardInterrupt)
