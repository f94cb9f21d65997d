"""The kernel's decode: turns records of the log into events and rejects, each record independently."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import array, scalar
from tandem.views.decode.file import without_header
from tandem.views.decode.idempotency import with_keys
from tandem.views.decode.listed_events import Readings, list_events, rejects_by_event
from tandem.views.decode.shared_topic import own_rows
from tandem.views.decode.table_rows import by_origin, of_its_side
from tandem.views.decode.value_parsers import parse_values, parser
from tandem.views.errors import said_by
from tandem.views.instant import APPEND_TIME, GREGORIAN, LAST, microseconds
from tandem.views.source.event import Field, event_fields
from tandem.views.source.fields.columns import column, misfits
from tandem.views.source.fields.event_time import EVENT_TIME_COLUMN, instants, time_path
from tandem.views.source.fields.reasons import Reject, within
from tandem.views.source.fields.rounded import ROUNDED, roundings_by_event, rounds
from tandem.views.source.record_filter import record_filter_parameters
from tandem.views.source.source import (
    IDEMPOTENCY_KEY,
    INDEX,
    LOG_APPEND_TIME,
    PLAUSIBLE,
    POSITION_SCHEMA,
    RECORDS_SCHEMA,
    TABLE_ROW,
    Source,
    events_schema,
    metadata_schema,
    record_columns,
    rejects_schema,
)
from tandem.views.start import before_start

FIRST_BYTES = 256

_POSITION = dict(zip(("topic_id", "partition", "offset", "timestamp"), POSITION_SCHEMA.names, strict=True))
_BATCH_ROWS = 16_384  # bounds the objects that are alive at once
_ROW = "_row"


@dataclass(frozen=True)
class DecodedRecords:
    """`events` in the columns of events_schema(source), `rejects` in those of rejects_schema(source), in the order of the log.

    `others` is the number of records that belong to other sources, `skipped` the number of records that are neither: records
    before the source's start, and tombstones.
    """

    events: pa.Table
    rejects: pa.Table
    others: int = 0
    skipped: int = 0


def decode(source: Source, records: pa.Table) -> DecodedRecords:
    """Turn records into events and rejects: each record independently, with exactly one outcome. No value raises an exception.

    `records` holds at least record_columns(source), in types that cast to those of RECORDS_SCHEMA.

    * A value that is not a list of 1 to `max_events_per_record` events becomes one reject. Each event of a list is an event or a
      reject by itself; with `on_bad_event="record"` the record becomes all of its events, or one reject.
    * A record before the source's `start` becomes neither event nor reject; it is counted in `skipped`.
    * Where `tombstones` is "skip", a record without a value becomes neither; it is counted in `skipped`, whosever it is.
    * Where the source has `record_filter`, another source's record becomes neither; it is counted in `others`.
    * A row of a table (table_rows.py) is read as JSON of the event type. With `history_until` an event that counts on the other
      side of the seam becomes neither; it is counted in `others`.
    * A record with several faults has the reason of the first one found. The order of checks is: text, fields, event time,
      idempotency key. A fault of a record as a whole is its only one.
    * A record, or an event of a list, that the event type rejects is read as each older version in turn. The first version that
      accepts it upgrades it. If none does, the event type's reject counts.
    * A timestamp beyond the years 1 to 9999 becomes the nearest time within.
    """
    schema = events_schema(source)
    # Not schema.empty_table(), which imports pandas.
    events, rejects = ([pa.Table.from_batches([], one)] for one in (schema, rejects_schema(source)))
    needed = pa.schema([RECORDS_SCHEMA.field(name) for name in record_columns(source)])
    metadata = metadata_schema(source).names
    copied = {**_POSITION, **{name[1:]: name for name in metadata if name != IDEMPOTENCY_KEY}}
    others = skipped = 0
    batches = (
        records.select(needed.names)
        .cast(needed)
        .to_batches(max_chunksize=max(1, _BATCH_ROWS // (source.max_events_per_record or 1)))
    )
    for reader, stamped, of_table in (piece for batch in batches for piece in by_origin(source, batch)):
        batch = _in_calendar(stamped)
        early = before_start(source.start, *(batch.column(name) for name in ("topic_id", "partition", "offset")))
        if early is not None and (earlier := early.true_count):
            skipped += earlier
            batch = batch.filter(pc.invert(early))
        if reader.tombstone_rule == "skip" and (tombstones := batch.column("value").null_count):
            skipped += tombstones
            batch = batch.filter(batch.column("value").is_valid())
        own, untold = _own(reader, batch)
        others += batch.num_rows - len(own) - len(untold)
        mine = batch if len(own) == batch.num_rows else batch.take(array(own, pa.int64()))
        typed, rejected = _read(reader, mine)
        plausible = _plausible(source, mine, typed, rejected)
        if source.history_until is not None:
            kept = plausible.filter(of_its_side(source, _times(source, mine, plausible), of_table=of_table))
            others, plausible = others + plausible.num_rows - kept.num_rows, kept
        if IDEMPOTENCY_KEY in metadata:
            plausible = with_keys(mine, plausible, rejected.records, row=_ROW)
        place = mine.select(list(copied)).take(plausible.column(_ROW)).rename_columns(list(copied.values()))
        columns = dict(zip([*place.schema.names, *plausible.schema.names], [*place.columns, *plausible.columns], strict=True))
        events.append(pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema))
        rejects.append(_rejects(reader, batch, rejected.among(own, untold)))
    return DecodedRecords(pa.concat_tables(events), pa.concat_tables(rejects), others, skipped)


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


@dataclass
class _Rejected:
    """The rejects of records, by row; and of single events, by row and index in their list, which `readings` have."""

    records: dict[int, Reject]
    events: dict[tuple[int, int], Reject]
    readings: Readings

    def among(self, rows: Sequence[int], others: Mapping[int, Reject]) -> "_Rejected":
        """The same by rows of the whole batch, of which `rows` are these records; with the rejects of `others`."""
        return _Rejected(
            {rows[row]: reject for row, reject in self.records.items()} | dict(others),
            {(rows[row], index): reject for (row, index), reject in self.events.items() if row not in self.records},
            {rows[row]: reading for row, reading in self.readings.items()},
        )


def _read(source: Source, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, _Rejected]:
    """The events as columns after their place, and the rejects."""
    if source.each_event_alone:
        typed, readings, records = list_events(source, batch, row=_ROW)
        return typed, _Rejected(records, rejects_by_event(readings), readings)
    typed, rejected = _whole_records(source, batch)
    return typed, _Rejected(rejected, {}, {})


def _whole_records(source: Source, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, Reject]]:
    """The events of records that become all of their events or one reject, and the rejects by row."""
    fields = event_fields(source.event)
    parsed, rejected = parse_values(source, source.event, source.decoder, batch)
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
        parsed, refused = parse_values(source, version.event, version.decoder, batch.take(array(rows, pa.int64())))
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
            if rounds(fields):
                columns[ROUNDED] = roundings_by_event(fields, found.structs)
            return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        rejected.update(misfit)
        found = found.without(misfit)


def _plausible(source: Source, batch: pa.RecordBatch, typed: pa.RecordBatch, rejected: _Rejected) -> pa.RecordBatch:
    """The rows whose event time is in the source's plausible range; the others go to `rejected`."""
    if source.event_time == APPEND_TIME:
        typed = _appended(batch, typed, rejected.records)
    else:
        typed = _with_event_time(source, typed, rejected)
    times = _times(source, batch, typed)
    low, high = (scalar(bound, times.type) for bound in source.plausible)
    inside = pc.and_(pc.greater_equal(times, low), pc.less(times, high))
    if pc.all(inside, min_count=0).as_py():
        return typed
    wrong = typed.filter(pc.invert(inside))
    # All events of a record have its append time.
    of_one = INDEX in wrong.schema.names and source.event_time != APPEND_TIME
    for number, (row, time) in enumerate(zip(wrong.column(_ROW).to_pylist(), times.filter(pc.invert(inside)), strict=True)):
        reject = Reject("implausible_time", _implausible(source, time))
        if not of_one:
            rejected.records.setdefault(row, reject)
            continue
        index = wrong.column(INDEX)[number].as_py()
        if source.each_event_alone:
            rejected.events[row, index] = reject
        else:
            rejected.records.setdefault(row, within(reject, index))
    if of_one and source.each_event_alone:
        return typed.filter(inside)
    return _without(typed, rejected.records)


def _times(source: Source, batch: pa.RecordBatch, typed: pa.RecordBatch) -> pa.Array:
    """The event times of the rows, which are events of records of the batch."""
    appended = source.event_time == APPEND_TIME
    return batch.column("timestamp").take(typed.column(_ROW)) if appended else typed.column(source.time_column)


def _implausible(source: Source, time: pa.Scalar) -> str:
    """Which bound an event time is beyond, and the option that widens it."""
    first, last = source.plausible
    early = time.value < microseconds(first)
    which = "by default" if source.plausible == PLAUSIBLE else "as declared"
    side, bound = ("before the first", first) if early else ("not before the end", last)
    return (
        f"{source.event_time} {time} is {side} of plausible, {bound.isoformat()} {which}; "
        "Source(plausible=(first, end)) widens it"
    )


def _with_event_time(source: Source, typed: pa.RecordBatch, rejected: _Rejected) -> pa.RecordBatch:
    """The rows with the column of their event time; those whose date has none go to `rejected`."""
    if source.time_column != EVENT_TIME_COLUMN:
        return typed
    path = time_path(source.event, source.event_time)
    times, faults = instants(path, typed.column(path[0].name))
    timed = typed.append_column(EVENT_TIME_COLUMN, times)
    for number, reject in faults.items():
        row = typed.column(_ROW)[number].as_py()
        index = typed.column(INDEX)[number].as_py() if INDEX in typed.schema.names else None
        if index is not None and source.each_event_alone:
            rejected.events[row, index] = reject
        else:
            rejected.records.setdefault(row, reject if index is None else within(reject, index))
    return _without(timed.filter(pc.is_valid(times)), rejected.records) if faults else timed


def _without(typed: pa.RecordBatch, rows: Mapping[int, Reject]) -> pa.RecordBatch:
    return typed.filter(pc.invert(pc.is_in(typed.column(_ROW), value_set=array(list(rows), pa.int64()))))


def _appended(batch: pa.RecordBatch, typed: pa.RecordBatch, rejected: dict[int, Reject]) -> pa.RecordBatch:
    """The rows whose timestamp the broker has set; the others go to `rejected`."""
    kinds = batch.column("timestamp_type").take(typed.column(_ROW))
    own = pc.is_in(kinds, value_set=array([LOG_APPEND_TIME, TABLE_ROW], kinds.type))
    for row in typed.column(_ROW).filter(pc.invert(own)).to_pylist():
        rejected[row] = Reject("producer_time", "the producer set the timestamp; message.timestamp.type has to be LogAppendTime")
    return typed.filter(own)


def _rejects(source: Source, batch: pa.RecordBatch, rejected: _Rejected) -> pa.Table:
    places: list[tuple[int, int | None]] = sorted(
        [*((row, None) for row in rejected.records), *rejected.events], key=lambda place: (place[0], place[1] or 0)
    )
    bad = batch.take(array([row for row, _ in places], pa.int64()))
    told = [rejected.records[row] if index is None else rejected.events[row, index] for row, index in places]
    samples = [
        without_header(source, value or b"") if index is None else rejected.readings[row].sample(index)
        for (row, index), value in zip(places, bad.column("value").to_pylist(), strict=True)
    ]
    columns = [
        *bad.select(list(_POSITION)).columns,
        array([reject.reason for reject in told], pa.string()),
        array([reject.detail for reject in told], pa.string()),
        array([sample[:FIRST_BYTES] for sample in samples], pa.binary()),
    ]
    if source.each_event_alone:
        columns.append(array([index for _, index in places], pa.int32()))
    return pa.Table.from_arrays(columns, schema=rejects_schema(source))
