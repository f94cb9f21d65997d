"""The kernel's decode: turns records of the log into events and rejects, each record independently."""

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import array, scalar
from tandem.views.decode import function
from tandem.views.decode.idempotency import with_keys
from tandem.views.decode.shared_topic import own_rows
from tandem.views.errors import DefinitionError, said_by
from tandem.views.instant import GREGORIAN, LAST
from tandem.views.source.decoder import Decoder, record_parameters
from tandem.views.source.event import Event, Field, event_fields
from tandem.views.source.fields.columns import column, misfits, unfit
from tandem.views.source.fields.reasons import Reject, refusal, within
from tandem.views.source.format import Format, Listed, Parse, Searched
from tandem.views.source.record_filter import record_filter_parameters
from tandem.views.source.source import (
    APPEND_TIME,
    IDEMPOTENCY_KEY,
    INDEX,
    LOG_APPEND_TIME,
    POSITION_SCHEMA,
    RECORDS_SCHEMA,
    REJECTS_SCHEMA,
    Source,
    events_schema,
    metadata_schema,
    record_columns,
)

FIRST_BYTES = 256

_POSITION = dict(zip(("topic_id", "partition", "offset", "timestamp"), POSITION_SCHEMA.names, strict=True))
_BATCH_ROWS = 16_384  # bounds the objects that are alive at once
_ROW = "_row"


@dataclass(frozen=True)
class DecodedRecords:
    """`events` in the columns of events_schema(source), `rejects` in those of REJECTS_SCHEMA; both in the order of the records.

    `others` is the number of records that belong to other sources.
    """

    events: pa.Table
    rejects: pa.Table
    others: int = 0


def decode(source: Source, records: pa.Table) -> DecodedRecords:
    """Turn records into events and rejects: each record independently, with exactly one outcome. No value raises an exception.

    `records` holds at least record_columns(source), in types that cast to those of RECORDS_SCHEMA.

    * A record with `max_events_per_record` becomes all of its events, or one reject.
    * Where the source has `record_filter`, another source's record becomes neither; it is counted in `others`.
    * A record with several faults has the reason of the first one found. The order of checks is: text, fields, event time,
      idempotency key.
    * A record that the event type rejects is read as each older version in turn. The first version that accepts it upgrades it.
      If none does, the event type's reject counts.
    * A timestamp before 1582-10-15 or after the year 9999 becomes the nearest time within.
    """
    schema = events_schema(source)
    # Not schema.empty_table(), which imports pandas.
    events, rejects = ([pa.Table.from_batches([], one)] for one in (schema, REJECTS_SCHEMA))
    needed = pa.schema([RECORDS_SCHEMA.field(name) for name in record_columns(source)])
    metadata = metadata_schema(source).names
    copied = {**_POSITION, **{name[1:]: name for name in metadata if name != IDEMPOTENCY_KEY}}
    others = 0
    for stamped in (
        records.select(needed.names)
        .cast(needed)
        .to_batches(max_chunksize=max(1, _BATCH_ROWS // (source.max_events_per_record or 1)))
    ):
        batch = _in_calendar(stamped)
        own, untold = _own(source, batch)
        others += batch.num_rows - len(own) - len(untold)
        mine = batch if len(own) == batch.num_rows else batch.take(array(own, pa.int64()))
        typed, rejected = _read(source, mine)
        plausible = _plausible(source, mine, typed, rejected)
        if IDEMPOTENCY_KEY in metadata:
            plausible = with_keys(mine, plausible, rejected, row=_ROW)
        place = mine.select(list(copied)).take(plausible.column(_ROW)).rename_columns(list(copied.values()))
        columns = dict(zip([*place.schema.names, *plausible.schema.names], [*place.columns, *plausible.columns], strict=True))
        events.append(pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema))
        rejects.append(_rejects(batch, {own[row]: reject for row, reject in rejected.items()} | untold))
    return DecodedRecords(pa.concat_tables(events), pa.concat_tables(rejects), others)


def parser(event: type[Event], decoder: Decoder, many: int | None = None) -> Parse:
    """The decoder for an event type, or for lists of at most `max_events_per_record` events, which it returns as lists.

    Raises DefinitionError if decoder and event type do not fit.
    """
    return _made(event, cast("Hashable", decoder), many)  # frozen dataclasses and functions are


@lru_cache(maxsize=256)
def _made(event: type[Event], decoder: Decoder, many: int | None) -> Parse:
    for field in event_fields(event):
        if field.default is not msgspec.NODEFAULT and (reject := unfit(field, field.default)):
            raise DefinitionError(f"{event.__name__}.{field.name}: default {field.default!r}: {reject.detail}")
    if many is not None:
        return bounded(decoder.listed(event) if isinstance(decoder, Format) else function.listed(event, decoder), many)
    return decoder.parser(event) if isinstance(decoder, Format) else function.parser(event, decoder)


def _in_calendar(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The records with timestamps that every reader of the log reads alike: from 1582-10-15 to the year 9999.

    A broker may accept any, such as nanoseconds for milliseconds.
    """
    place = batch.schema.get_field_index("timestamp")
    stamps = batch.column(place).cast(pa.int64())
    bounds = pc.min_max(stamps).as_py()
    if not batch.num_rows or GREGORIAN <= bounds["min"] <= bounds["max"] <= LAST:
        return batch
    within = pc.max_element_wise(pc.min_element_wise(stamps, scalar(LAST, pa.int64())), scalar(GREGORIAN, pa.int64()))
    return batch.set_column(place, batch.schema.field(place), within.cast(batch.schema.field(place).type))


def _own(source: Source, batch: pa.RecordBatch) -> tuple[Sequence[int], dict[int, Reject]]:
    """The rows that are the source's own, and the rejects of rows for which `record_filter` cannot decide."""
    if source.record_filter is None:
        return range(batch.num_rows), {}
    return own_rows(
        source.record_filter,
        *(batch.column(name).to_pylist() for name in ("value", *record_filter_parameters(source.record_filter))),
    )


def _read(source: Source, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, Reject]]:
    """The events as columns after their place, and the rejects by row."""
    fields = event_fields(source.event)
    parsed, rejected = _parsed(source, source.event, source.decoder, batch)
    typed = _typed(fields, _found(source, parsed), rejected)
    if not source.versions or not rejected:
        return typed, rejected
    upgraded, failed = _upgraded(source, batch, list(rejected))
    both = pa.concat_batches([typed, _typed(fields, _found(source, upgraded), failed)])
    # A record that no version accepts has the event type's reject.
    left = {row: failed.get(row, reject) for row, reject in rejected.items() if row in failed or row not in upgraded}
    return both.take(pc.sort_indices(both.column(_ROW))), left


def _upgraded(source: Source, batch: pa.RecordBatch, rows: Sequence[int]) -> tuple[dict[int, Any], dict[int, Reject]]:
    """Read these rows as older versions: the upgraded events, and the rejects of those whose upgrade fails, by row."""
    upgraded: dict[int, Any] = {}
    failed: dict[int, Reject] = {}
    for version in source.versions:
        rows = [row for row in rows if row not in upgraded and row not in failed]
        parsed, refused = _parsed(source, version.event, version.decoder, batch.take(array(rows, pa.int64())))
        # A value that does not fit its column is not of this version.
        _typed(event_fields(version.event), _found(source, parsed), refused)
        upgrade = parser(source.event, version.upgrade)
        for index, old in ((index, old) for index, old in parsed.items() if index not in refused):
            try:
                upgraded[rows[index]] = upgrade(old) if source.max_events_per_record is None else [upgrade(one) for one in old]
            except (MemoryError, KeyboardInterrupt):
                raise
            except Reject as reject:
                failed[rows[index]] = reject
            except BaseException as error:  # noqa: BLE001  the project's own code may raise anything
                failed[rows[index]] = Reject("upgrade", f"{version.upgrade.__name__}: {said_by(error)}")
    return upgraded, failed


def _parsed(
    source: Source, event: type[Event], decoder: Decoder, batch: pa.RecordBatch
) -> tuple[dict[int, Any], dict[int, Reject]]:
    read = ("value", *record_parameters(decoder))
    parse = parser(event, decoder, source.max_events_per_record)
    parsers = parse.for_values(batch.column("value")) if isinstance(parse, Searched) else repeat(parse)
    return _parse(parsers, *(batch.column(name).to_pylist() for name in read))


def _parse(parsers: Iterable[Parse], *columns: Sequence[Any]) -> tuple[dict[int, Any], dict[int, Reject]]:
    """Decode each row of columns, of which the first holds the values: the structs and the rejects, by row."""
    structs: dict[int, Any] = {}
    rejected: dict[int, Reject] = {}
    for row, (parse, read) in enumerate(zip(parsers, zip(*columns, strict=True), strict=False)):
        if not (value := read[0]):
            rejected[row] = Reject("empty", "the record has no value" if value is None else "the value has no bytes")
            continue
        try:
            structs[row] = parse(*read)
        except BaseException as error:  # noqa: BLE001  the project's own code may raise anything, SystemExit too
            rejected[row] = refusal(error)
    return structs, rejected


@dataclass(frozen=True)
class _Found:
    """Structs, each with the row of its record and, with `max_events_per_record`, its index in the record."""

    structs: list[Any]
    rows: list[int]
    indexes: list[int] | None = None

    @property
    def place(self) -> dict[str, pa.Array]:
        """Rows and indexes as columns."""
        indexes = {} if self.indexes is None else {INDEX: array(self.indexes, pa.int32())}
        return {_ROW: array(self.rows, pa.int64()), **indexes}

    def told(self, number: int, reject: Reject) -> Reject:
        """One struct's reject as the reject of its record."""
        return reject if self.indexes is None else within(reject, self.indexes[number])

    def without(self, rows: Container[int]) -> "_Found":
        kept = [number for number, row in enumerate(self.rows) if row not in rows]
        indexes = None if self.indexes is None else [self.indexes[number] for number in kept]
        return _Found([self.structs[number] for number in kept], [self.rows[number] for number in kept], indexes)


def _found(source: Source, parsed: Mapping[int, Any]) -> _Found:
    """The parsed structs by row: one for each row, or a list for each row."""
    if source.max_events_per_record is None:
        return _Found(list(parsed.values()), list(parsed))
    return _Found(
        [struct for structs in parsed.values() for struct in structs],
        [row for row, structs in parsed.items() for _ in structs],
        [index for structs in parsed.values() for index in range(len(structs))],
    )


def _typed(fields: Sequence[Field], found: _Found, rejected: dict[int, Reject]) -> pa.RecordBatch:
    """The structs as columns, after the columns of position; records with a struct that does not fit go to `rejected`."""
    while True:
        columns = found.place
        misfit: dict[int, Reject] = {}
        for field in fields:
            values = list(map(attrgetter(field.name), found.structs))
            try:
                columns[field.name] = column(field, values)
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001  the code below finds which values, and why
                for number, reject in misfits(field, values).items():
                    misfit.setdefault(found.rows[number], found.told(number, reject))
        if not misfit:
            return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        rejected.update(misfit)
        found = found.without(misfit)


def _plausible(source: Source, batch: pa.RecordBatch, typed: pa.RecordBatch, rejected: dict[int, Reject]) -> pa.RecordBatch:
    """The rows whose event time is in the source's plausible range; the others go to `rejected`."""
    if source.event_time == APPEND_TIME:
        typed = _appended(batch, typed, rejected)
        times = batch.column("timestamp").take(typed.column(_ROW))
    else:
        times = typed.column(source.event_time)
    low, high = (scalar(bound, times.type) for bound in source.plausible)
    inside = pc.and_(pc.greater_equal(times, low), pc.less(times, high))
    if pc.all(inside, min_count=0).as_py():
        return typed
    wrong = typed.filter(pc.invert(inside))
    first, last = (bound.isoformat() for bound in source.plausible)
    rows: dict[int, Reject] = {}
    for number, (row, time) in enumerate(zip(wrong.column(_ROW).to_pylist(), times.filter(pc.invert(inside)), strict=True)):
        reject = Reject("implausible_time", f"{source.event_time} {time} is not between {first} and {last}")
        of_one = INDEX in wrong.schema.names and source.event_time != APPEND_TIME
        rows.setdefault(row, within(reject, wrong.column(INDEX)[number].as_py()) if of_one else reject)
    rejected.update(rows)
    return typed.filter(pc.invert(pc.is_in(typed.column(_ROW), value_set=array(list(rows), pa.int64()))))


def _appended(batch: pa.RecordBatch, typed: pa.RecordBatch, rejected: dict[int, Reject]) -> pa.RecordBatch:
    """The rows whose timestamp the broker has set; the others go to `rejected`."""
    kinds = batch.column("timestamp_type").take(typed.column(_ROW))
    own = pc.fill_null(pc.equal(kinds, scalar(LOG_APPEND_TIME, kinds.type)), False)
    for row in typed.column(_ROW).filter(pc.invert(own)).to_pylist():
        rejected[row] = Reject("producer_time", "the producer set the timestamp; message.timestamp.type has to be LogAppendTime")
    return typed.filter(own)


def _rejects(batch: pa.RecordBatch, rejected: Mapping[int, Reject]) -> pa.Table:
    rows = sorted(rejected)
    bad = batch.take(array(rows, pa.int64()))
    return pa.Table.from_arrays(
        [
            *bad.select(list(_POSITION)).columns,
            array([rejected[row].reason for row in rows], pa.string()),
            array([rejected[row].detail for row in rows], pa.string()),
            array([(value or b"")[:FIRST_BYTES] for value in bad.column("value").to_pylist()], pa.binary()),
        ],
        schema=REJECTS_SCHEMA,
    )


def bounded(listed: Listed, most: int) -> Parse:
    """A function from one value to the list of its events, 1 to `most` of them, in their order.

    The first fault rejects the record; the reject names the event that has it.
    """
    if isinstance(listed.parse, Searched):
        parse, plain = (bounded(replace(listed, parse=one), most) for one in (listed.parse.parse, listed.parse.plain))
        return Searched(parse, plain, listed.parse.search)

    def parse_all(*record: Any) -> list[Any]:
        parts = listed.split(*record)
        if not 1 <= len(parts) <= most:
            raise Reject("length", f"{len(parts)} events in one value; it holds 1 to {most}")
        events = []
        for index, part in enumerate(parts):
            try:
                events.append(listed.parse(part))
            except BaseException as error:
                raise within(refusal(error), index) from error
        return events

    return parse_all
