"""The log of a source up to the position of an answer, and the events of it that may be of some rows.

Below the archive's end the events table has them, from there on the topic; copies of them are wherever their identities are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position, lower, ranges
from tandem.serving.read.selection import later
from tandem.serving.why.key_rows import events_of_rows, rows_among, rows_with_key
from tandem.serving.why.row_groups import ALL_TIMES, EventRows, Mask, RowsToFind, Span, TooManyEvents, within
from tandem.serving.why.topic_tail import LogTail
from tandem.views import oracle
from tandem.views.arrow import arrays
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.instant import APPEND_TIME, MICROSECOND
from tandem.views.kernel import kernel
from tandem.views.kernel.look_up import Versions, with_rows
from tandem.views.lookup.lookup import reading_events
from tandem.views.oracle.answers import Group
from tandem.views.oracle.duplicates import Firsts
from tandem.views.read_columns import columns
from tandem.views.source.fields.event_time import EVENT_TIME_COLUMN, time_path
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source, events_schema, position_columns, rejects_schema
from tandem.views.view import View, bind


@dataclass(frozen=True)
class WorkBounds:
    """The most events that are kept in memory, bytes of the events table and records of the topic that are read."""

    events: int
    bytes: int | None = None
    records: int | None = None


OF_A_ROW: Final = WorkBounds(200_000)
"""Of the events behind a row: the oracle keeps them all in memory."""


@dataclass(frozen=True)
class AskedRow:
    """The row that is asked about: values of some of the view's keys as a table of one row, and its window in event time.

    `span` are the window's bounds, open where the window has none or follows the order of the log.
    """

    view: View
    key: pa.Table
    span: Span
    most: WorkBounds = OF_A_ROW

    @property
    def values(self) -> Group:
        """The values of the keys that are asked for, in the view's order."""
        return tuple(self.key[name][0].as_py() for name in self.key.column_names)


@dataclass(frozen=True)
class PartLog:
    """The log of a part's source up to `end`, and what its look-ups find: `below` the cut, and `above` it.

    An event is also read if it has the asked key by `others`: what look-ups find at another moment.
    """

    tables: Tables
    part: View
    cut: Position
    end: Position
    below: Versions
    above: Versions
    tail: LogTail = field(repr=False)
    others: tuple[Versions, ...] = field(default=(), repr=False)

    @property
    def source(self) -> Source:
        """The part's source."""
        return self.part.source


class LogEvents:
    """The events of a log for the rows that are asked about. Reads the topic at once, and the events table when it is asked."""

    def __init__(self, log: PartLog, asked: AskedRow) -> None:
        self.log, self.asked, source = log, asked, log.source
        ledger = ArchiveLedger(log.tables, source.name)
        self.generations, decoder = ledger.generations(), decoder_fingerprint(source)
        archived, firsts = lower(ledger.end(decoder), log.end), ledger.firsts()
        self.covered = ranges(LOG_START, log.end, firsts)
        address = log.tables.events(source.name, decoder)
        self.rows = EventRows.of(log.tables, address, ranges(LOG_START, archived, firsts), source.time_column)
        self.rows.most = asked.most.bytes
        self.identity = oracle.identity_columns(source)
        self.place = [*position_columns(source)]
        needed = {*self.place, APPEND_TIME, *self.identity, *columns(log.part), *_time_fields(source)}
        self.columns = [name for name in events_schema(source).names if name in needed]
        self.tail, self.records, self.rejects = self._tail(ranges(archived, log.end, firsts))

    def _tail(self, missing: Ranges) -> tuple[pa.Table, int, pa.Table]:
        """The events, records and rejects that only the topic has."""
        source, records, most = self.log.source, 0, self.asked.most.records
        if most is not None and missing.length > most:
            raise TooManyEvents(
                f"{missing.length} offsets of source {source.name!r} are not archived yet, more than the {most} that are read "
                "for this; try again after `tandem archive`"
            )
        events, rejects = [events_schema(source).empty_table()], [rejects_schema(source).empty_table()]
        for decoding, some in self.log.tail(source, missing) if missing.length else ():
            decoded = kernel.decode(decoding, some)
            records += some.num_rows
            events.append(decoded.events)
            rejects.append(decoded.rejects)
        return pa.concat_tables(events), records, pa.concat_tables(rejects)

    @property
    def _times(self) -> Span:
        """The event times of the events that may be in the window: a session may begin earlier than it is known to."""
        low, high = self.asked.span
        if self.log.source.prepare is not None:  # the rows of an event may have another time
            return ALL_TIMES
        return (None if low is None else later(low, -bind(self.log.part).placement.timing.grace)), high

    def _of_key(self, events: pa.Table) -> Mask:
        """Which events have the key, or none that can be evaluated: for those their source's `prepare` fails, too."""
        source = self.log.source
        prepared = kernel.prepare(source, events, self.generations)
        mask = self._with_key(prepared.events)
        if source.prepare is None:
            return mask
        rows = events_of_rows(source, events, prepared.events.filter(arrays.booleans(mask)))
        return rows if prepared.failing is None else rows | events_of_rows(source, events, prepared.failing)

    def _with_key(self, prepared: pa.Table) -> Mask:
        """Which rows have the key, or none that can be evaluated."""
        mask = np.zeros(prepared.num_rows, dtype=bool)
        for versions in (self.log.below, self.log.above, *self.log.others) if self.log.part.lookup else (self.log.above,):
            mask |= rows_with_key(self.asked.view, with_rows(self.log.part, prepared, versions), self.asked.key, unknown=True)
        return mask

    def candidates(self) -> pa.Table:
        """The events of the key and window, all copies of them, and those of these times whose key cannot be evaluated.

        Raises TooManyEvents, Unreadable.
        """
        bound = bind(self.asked.view)
        fields = {name for _, key in bound.keys for name in key.fields}
        lookups = bind(self.log.part).lookups
        fields |= {name for each in lookups for key in each.keys for name in reading_events(key, lookups).fields}
        deciding = self.columns if self.log.source.prepare is not None else [name for name in self.columns if name in fields]
        asked = dict(zip(self.asked.key.column_names, self.asked.values, strict=True))
        equal = {
            key.column: asked[name]
            for name, key in bound.keys
            if key.column is not None and isinstance(asked.get(name), str | int)
        }
        what = RowsToFind(self.columns, deciding, self._of_key, self._times, equal)
        pieces, number = [], 0
        for piece in self._find(what):
            pieces.append(piece)
            number += piece.num_rows
            if number > self.asked.most.events:
                raise TooManyEvents(
                    f"view {self.asked.view.name!r}: more than {self.asked.most.events} events are behind this; ask for a "
                    "shorter window, or in a view with more keys"
                )
        return pa.concat_tables([events_schema(self.log.source).empty_table().select(self.columns), *pieces])

    def of_row(self, candidates: pa.Table) -> pa.Table:
        """The candidates in the asked window: those around a session, and rows of an event at other times, are not."""
        source = self.log.source
        if source.prepare is None:
            return candidates.filter(arrays.booleans(within(candidates[source.time_column], self.asked.span)))
        prepared = kernel.prepare(source, candidates, self.generations)
        pieces = [prepared.events.filter(arrays.booleans(self._with_key(prepared.events))), prepared.failing]
        mask = np.zeros(candidates.num_rows, dtype=bool)
        for rows in (piece for piece in pieces if piece is not None):
            inside = rows.filter(arrays.booleans(within(rows[source.time_column], self.asked.span)))
            mask |= events_of_rows(source, candidates, inside)
        return candidates.filter(arrays.booleans(mask))

    def choose(self, candidates: pa.Table, copies: pa.Table) -> tuple[pa.Table, Firsts]:
        """Those candidates that count, and where the first of each identity is."""
        first = oracle.first_places(self.log.source, [copies], self.generations) if self.identity else {}
        return oracle.counted(self.log.source, candidates, first, self.generations), first

    def _find(self, what: RowsToFind) -> Iterator[pa.Table]:
        """The wanted rows of the events table, then of the topic."""
        yield from self.rows.find(what)
        inside = self.tail.filter(arrays.booleans(within(self.tail[self.log.source.time_column], what.times)))
        if inside.num_rows:
            yield inside.filter(arrays.booleans(what.wanted(inside))).select([*what.columns])

    def copies(self, candidates: pa.Table) -> pa.Table:
        """All events with the identity of a candidate, of any key."""
        time = self.log.source.time_column
        wanted = [*dict.fromkeys((*self.place, time, *self.identity))]
        if not self.identity or not candidates.num_rows:
            return candidates.select(wanted)
        every = candidates[time].to_pylist()
        times = (min(every), max(every) + MICROSECOND) if time in self.identity else ALL_TIMES
        what = RowsToFind(wanted, self.identity, lambda events: rows_among(events, candidates, self.identity), times)
        return pa.concat_tables(self._find(what))


def _time_fields(source: Source) -> list[str]:
    """The field that has the event time, if the time's column is made of it."""
    return (
        [time_path(source.event, source.event_time)[0].name] if source.time_column == EVENT_TIME_COLUMN else [source.time_column]
    )
