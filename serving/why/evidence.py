"""What one source gives to a row: the events that count, and those that nearly did, each with its place in the log."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa

from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.rows_at import rows_at
from tandem.ledger.log.positions import LOG_START, ranges
from tandem.serving.why.key_rows import rows_among, rows_with_key
from tandem.serving.why.part_log import AskedRow, LogEvents, PartLog
from tandem.serving.why.row_groups import Mask, ReadBytes, Span, within
from tandem.views import oracle
from tandem.views.arrow import arrays
from tandem.views.kernel import kernel
from tandem.views.oracle.answers import Group
from tandem.views.oracle.counted_events import NUMBER, CountedRow, Place, places
from tandem.views.oracle.duplicates import Firsts
from tandem.views.oracle.times import event_times
from tandem.views.oracle.versions import lookup_rows
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source
from tandem.views.view import View


@dataclass(frozen=True)
class DroppedCopy:
    """A duplicate that does not count, and where the copy is that does."""

    at: Place
    time: datetime
    counts: Place


@dataclass(frozen=True)
class RejectedEvent:
    """An event that the view could not evaluate."""

    at: Place
    time: datetime
    reason: str


@dataclass(frozen=True)
class SourceEvidence:
    """What a source gives to the row.

    Args:
        part: the view of this source alone.
        groups: the rows that count by group of the view, for the oracle: those of the key, in any window.
        prepared: the rows that views read of these events, with a column for each look-up; rows of `groups` name them by number.
        below: which of `prepared` are below the cut.
        filtered: the places of events of the key and window that the view's filter leaves out.
        early: how many are before the position at which the source starts.
        topic_records: how many records were read from the topic.
    """

    part: View
    groups: Mapping[Group, Sequence[CountedRow]] = field(hash=False)
    prepared: pa.Table = field(repr=False, hash=False)
    below: Mask = field(repr=False, hash=False)
    duplicates: tuple[DroppedCopy, ...]
    rejected: tuple[RejectedEvent, ...]
    filtered: tuple[Place, ...]
    early: int
    read: ReadBytes = field(hash=False)
    topic_records: int
    topic_rejects: pa.Table = field(repr=False, hash=False)
    covered: Ranges


def gather(log: PartLog, asked: AskedRow) -> SourceEvidence:
    """What a source gives to a row. Raises ReadFailed, TooManyEvents, Unreadable."""
    source, events = log.source, LogEvents(log, asked)
    candidates = events.candidates()
    copies = events.copies(candidates)
    counted, first = events.choose(candidates, copies)
    of_row = events.of_row(candidates)
    rows = kernel.prepare(source, counted, events.generations)
    prepared = rows.events.append_column(NUMBER, arrays.row_numbers(rows.events.num_rows))
    below = rows_at(prepared, EVENTS, ranges(LOG_START, log.cut))
    prepared = look_up(log, prepared, below)
    groups, refused = oracle.classify(asked.view, prepared, part=log.part)
    counting = {row.number for rows in groups.values() for row in rows} | {number for number, _ in refused}
    outside = np.array([number not in counting for number in range(prepared.num_rows)], dtype=bool)
    inside = within(prepared[source.time_column], asked.span)
    outside &= inside & rows_with_key(asked.view, prepared, asked.key, unknown=False)
    at, times = [*places(prepared)], event_times(source, prepared)
    return SourceEvidence(
        log.part,
        {group: rows for group, rows in groups.items() if group[: len(asked.values)] == asked.values},
        prepared,
        below,
        tuple(_copies_to_drop(source, copies, first, of_row)),
        (
            *(RejectedEvent(at[number], times[number], reason) for number, reason in refused if inside[number]),
            *_prepare_failures(source, rows.failing, asked.span),
        ),
        tuple(at[number] for number in np.flatnonzero(outside).tolist()),
        of_row.num_rows - oracle.from_start(source, of_row).num_rows,
        events.rows.read,
        events.records,
        events.rejects,
        events.covered,
    )


def _prepare_failures(source: Source, failing: pa.Table | None, span: Span) -> Iterator[RejectedEvent]:
    """The events of these times that the source's `prepare` could not make rows of."""
    if failing is not None:
        inside = failing.filter(arrays.booleans(within(failing[source.time_column], span)))
        for at, time in zip(places(inside), event_times(source, inside), strict=True):
            yield RejectedEvent(at, time, "prepare")


def look_up(log: PartLog, prepared: pa.Table, below: Mask) -> pa.Table:
    """The rows with a column for each look-up: below the cut as the batch layer found it, from there on as of now."""
    part = log.part
    if not part.lookup:
        return prepared
    sides = [(prepared.filter(arrays.booleans(mask)), of) for mask, of in ((below, log.below), (~below, log.above))]
    widened = []
    for rows, versions in sides:
        columns_ = lookup_rows(part, rows, versions)
        for name, column in columns_.items():
            rows = rows.append_column(name, column)  # noqa: PLW2901
        widened.append(rows)
    return pa.concat_tables(widened).sort_by(NUMBER)


def _copies_to_drop(source: Source, copies: pa.Table, first: Firsts, of_row: pa.Table) -> Iterator[DroppedCopy]:
    """The copies that are not the first of their identity, of events of which one copy is of the row."""
    if not first:
        return
    copies = oracle.from_start(
        source, copies.filter(arrays.booleans(rows_among(copies, of_row, oracle.identity_columns(source))))
    )
    identities = zip(*(copies[name].to_pylist() for name in oracle.identity_columns(source)), strict=True)
    times = copies[source.time_column].to_pylist()
    for identity, at, time in sorted(zip(identities, places(copies), times, strict=True), key=lambda each: each[1]):
        if first[identity][1] != at:
            yield DroppedCopy(at, time, first[identity][1])
