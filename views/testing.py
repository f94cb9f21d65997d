"""For a project's own tests: a view's answer over events that the test writes down."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from tandem.views.arrow.python_values import array
from tandem.views.composite.table import looked_up
from tandem.views.decode.idempotency import own_place
from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import current, deduplicate, merge, partial, partial_of, prepare, present, versions
from tandem.views.kernel.partial import Partial
from tandem.views.kernel.rows import to_rows
from tandem.views.source.event import Event, event_fields
from tandem.views.source.fields.columns import column
from tandem.views.source.fields.event_time import EVENT_TIME_COLUMN, instants, time_path
from tandem.views.source.fields.rounded import ROUNDED, roundings_by_event, rounds
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import IDEMPOTENCY_KEY, INDEX, Source, metadata_schema, position_schema
from tandem.views.source.united_source import UnitedSource, sources_of
from tandem.views.source.watermark import least, maxima_of, watermark
from tandem.views.view import View

_APPENDED: Final = datetime(2000, 1, 1, tzinfo=UTC)


def _as_it_is(states: Partial) -> Partial:
    return states


def answer(view: View, events: Iterable[Event]) -> list[dict[str, Any]]:
    """The rows that `tandem query` prints with --json if the log holds these events, in this order, and nothing else.

    Duplicates by the source's identity are dropped, as everywhere. The function takes events, so nothing is decoded. Of a view
    over several sources, and of a view that looks up in tables, each event is of the source with its type.
    """
    return to_rows(view, answer_table(view, events))


def answer_table(
    view: View, events: Iterable[Event], *, batches: int = 1, stored: Callable[[Partial], Partial] = _as_it_is
) -> pa.Table:
    """The rows of `answer`, before they are written for people.

    The events of each source are folded in several micro-batches, whose states go through `stored`.
    """
    logs = {source: events_table(source, some) for source, some in _by_source(view, [*events]).items()}
    reached = [_watermark_of(source, logs[source]) for source in sources_of(view.source)]
    return present(view, _folded(view, logs, batches, stored), least(reached))


def rows_of(view: View, log: pa.Table, folded: Partial) -> list[dict[str, Any]]:
    """Rows as `answer` gives them, of what was folded of a log: an `events_table` with all copies, whose end labels windows."""
    return to_rows(view, present(view, folded, _watermark_of(view.source, log)))


def rejected(view: View, events: Iterable[Event]) -> Mapping[str, int]:
    """How many events the view rejects, by reason."""
    logs = {source: events_table(source, some) for source, some in _by_source(view, [*events]).items()}
    return current(view, _folded(view, logs)).rejected


def _by_source(view: View, events: Sequence[Event]) -> dict[Source, list[Event]]:
    """The events by the source that they are of. Raises DefinitionError where their type does not say it."""
    sources = [*dict.fromkeys((*sources_of(view.source), *(table.source for table in looked_up(view).values())))]
    kinds = {source.event: source for source in sources}
    if len(kinds) < len(sources):
        raise DefinitionError(f"view {view.name!r}: two of its sources have one event type, which does not say whose an event is")
    if len(sources) == 1:
        return {view.source: [*events]}
    for event in events:
        if type(event) not in kinds:
            raise DefinitionError(
                f"view {view.name!r} reads no events of type {type(event).__name__}; types: "
                f"{', '.join(kind.__name__ for kind in kinds)}"
            )
    return {source: [event for event in events if type(event) is kind] for kind, source in kinds.items()}


def _watermark_of(source: Source, log: pa.Table) -> int | None:
    """The watermark at the end of a log."""
    counted = deduplicate(source, log).events
    # An event of a test has no record, so it cannot be ahead of a record's timestamp.
    return watermark(maxima_of(replace(source, clock_skew=timedelta.max), counted), source.idle)


def events_table(source: Source, events: Sequence[Event]) -> pa.Table:
    """The events as the kernel's input: one partition, offsets from 0 on, one event per record, no keys or headers."""
    if isinstance(source, UnitedSource):
        raise DefinitionError(
            f"sources {source.name} have a log each, and this is for a view over one; call tandem.testing.answer"
        )
    topic = source.topic_texts[0]
    fields = event_fields(source.event)
    positions = [
        {"_topic_id": topic, "_partition": 0, "_offset": offset, "_append_time": _APPENDED, INDEX: 0}
        for offset in range(len(events))
    ]
    table = pa.Table.from_pylist(positions, schema=position_schema(source))
    nowhere: list[str | None] = [None] * len(events)
    for name, type_ in zip(metadata_schema(source).names, metadata_schema(source).types, strict=True):
        keys = [own_place(topic, 0, offset) for offset in range(len(events))] if name == IDEMPOTENCY_KEY else nowhere
        table = table.append_column(name, array(keys, type_))
    if rounds(fields):
        table = table.append_column(ROUNDED, roundings_by_event(fields, events))
    for field in fields:
        table = table.append_column(field.name, column(field, [getattr(event, field.name) for event in events]))
    if source.time_column == EVENT_TIME_COLUMN:
        path = time_path(source.event, source.event_time)
        times, rejects = instants(path, table[path[0].name].combine_chunks())
        for reject in rejects.values():
            raise reject
        table = table.append_column(EVENT_TIME_COLUMN, times)
    return table


def _folded(
    view: View, logs: Mapping[Source, pa.Table], batches: int = 1, stored: Callable[[Partial], Partial] = _as_it_is
) -> Partial:
    counted = {source: deduplicate(source, log).events for source, log in logs.items()}
    tables = {name: (table, prepare(table.source, counted[table.source])) for name, table in looked_up(view).items()}
    read = {name: versions(table, partial(table, of.events, EMPTY, of.failed).states) for name, (table, of) in tables.items()}
    partials = []
    for source in sources_of(view.source):
        size = -(-counted[source].num_rows // batches) or 1
        for start in range(0, max(1, counted[source].num_rows), size):
            some = prepare(source, counted[source].slice(start, size))
            partials.append(stored(partial_of(view, some.events, EMPTY, some.failed, source=source, versions=read)))
    return merge(view, partials)
