"""The kernel's decode: records of the log to events and rejects, each record by itself."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from views.decode import apache_combined, function, json, nginx_json, syslog
from views.decode.columns import column, misfits, unfit
from views.decode.own import own_rows
from views.decode.reasons import Reject
from views.decoder import Decoder, DecoderName, ParameterizedDecoder, Parse, record_parameters
from views.errors import DefinitionError
from views.event import Event, Field, event_fields
from views.only import only_parameters
from views.python_values import array, scalar
from views.source import (
    APPEND_TIME,
    LOG_APPEND_TIME,
    RECORDS_SCHEMA,
    REJECTS_SCHEMA,
    Source,
    events_schema,
    metadata_schema,
    record_columns,
)

PARSERS: dict[DecoderName, Callable[[type[Event]], Parse]] = {
    "json": json.parser,
    "apache_combined": apache_combined.parser,
    "nginx_json": nginx_json.parser,
    "syslog": syslog.parser,
}
FIRST_BYTES = 256

_POSITION = ("topic_id", "partition", "offset", "timestamp")
_BATCH_ROWS = 16_384  # bounds the objects that are alive at once


@dataclass(frozen=True)
class Decoded:
    """`events` as events_schema(source) has them, `rejects` as REJECTS_SCHEMA; both in the order of the records.

    `others` is how many records were none of the source's.
    """

    events: pa.Table
    rejects: pa.Table
    others: int = 0


def decode(source: Source, records: pa.Table) -> Decoded:
    """Turn records into events and rejects: each record by itself, exactly one outcome, no exception for any value.

    A third outcome, where the source says which records are its own, is to be none of them, which is counted.

    `records` holds at least record_columns(source), in types that cast to those of RECORDS_SCHEMA. A record with several
    faults has the reason of the first: as text, then by field, then its event time. One that the event type rejects is read as
    each older version in turn; the first that takes it has it upgraded, and if none does, the event type's reject counts.
    """
    # Not schema.empty_table(), which imports pandas.
    events, rejects = ([pa.Table.from_batches([], schema)] for schema in (events_schema(source), REJECTS_SCHEMA))
    needed = pa.schema([RECORDS_SCHEMA.field(name) for name in record_columns(source)])
    copied = [*_POSITION, *(name[1:] for name in metadata_schema(source).names)]
    others = 0
    for batch in records.select(needed.names).cast(needed).to_batches(max_chunksize=_BATCH_ROWS):
        own, untold = _own(source, batch)
        others += batch.num_rows - len(own) - len(untold)
        mine = batch if len(own) == batch.num_rows else batch.take(array(own, pa.int64()))
        typed, rejected = _read(source, mine)
        plausible = _plausible(source, mine, typed, rejected)
        positions = mine.select(copied).take(plausible.column("_row"))
        events.append(pa.Table.from_arrays([*positions.columns, *plausible.columns[1:]], schema=events_schema(source)))
        rejects.append(_rejects(batch, {own[row]: reject for row, reject in rejected.items()} | untold))
    return Decoded(pa.concat_tables(events), pa.concat_tables(rejects), others)


def parser(event: type[Event], decoder: Decoder) -> Parse:
    """The decoder made for an event type; raises DefinitionError if the two do not go together."""
    return _made(event, cast("Hashable", decoder))  # names, frozen dataclasses and functions are


@lru_cache(maxsize=256)
def _made(event: type[Event], decoder: Decoder) -> Parse:
    for field in event_fields(event):
        if field.default is not msgspec.NODEFAULT and (reject := unfit(field, field.default)):
            raise DefinitionError(f"{event.__name__}.{field.name}: default {field.default!r}: {reject.detail}")
    if isinstance(decoder, str):
        return PARSERS[decoder](event)
    return decoder.parser(event) if isinstance(decoder, ParameterizedDecoder) else function.parser(event, decoder)


def _own(source: Source, batch: pa.RecordBatch) -> tuple[Sequence[int], dict[int, Reject]]:
    """The rows that are the source's, and the rejects of those of which that cannot be told."""
    if source.only is None:
        return range(batch.num_rows), {}
    return own_rows(source.only, *(batch.column(name).to_pylist() for name in ("value", *only_parameters(source.only))))


def _read(source: Source, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, Reject]]:
    """The events as columns after their row, and the rejects by row."""
    fields = event_fields(source.event)
    structs, rejected = _structs(source.event, source.decoder, batch)
    typed = _typed(fields, structs, rejected)
    if not source.versions or not rejected:
        return typed, rejected
    upgraded, failed = _upgraded(source, batch, list(rejected))
    both = pa.concat_batches([typed, _typed(fields, upgraded, failed)])
    # What no version takes is rejected as the event type rejects it.
    left = {row: failed.get(row, reject) for row, reject in rejected.items() if row in failed or row not in upgraded}
    return both.take(pc.sort_indices(both.column("_row"))), left


def _upgraded(source: Source, batch: pa.RecordBatch, rows: Sequence[int]) -> tuple[dict[int, Any], dict[int, Reject]]:
    """Of these rows what older versions take: the upgraded structs, and the rejects of those that cannot be upgraded."""
    upgraded: dict[int, Any] = {}
    failed: dict[int, Reject] = {}
    for version in source.versions:
        rows = [row for row in rows if row not in upgraded and row not in failed]
        structs, refused = _structs(version.event, version.decoder, batch.take(array(rows, pa.int64())))
        _typed(event_fields(version.event), structs, refused)  # a value that has no place in its column is not of this version
        upgrade = parser(source.event, version.upgrade)
        for index, struct in structs.items():
            if index in refused:
                continue
            try:
                upgraded[rows[index]] = upgrade(struct)
            except Reject as reject:
                failed[rows[index]] = reject
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001  the project's own code may raise anything
                failed[rows[index]] = Reject("upgrade", f"{version.upgrade.__name__}: {type(error).__name__}: {error}")
    return upgraded, failed


def _structs(event: type[Event], decoder: Decoder, batch: pa.RecordBatch) -> tuple[dict[int, Any], dict[int, Reject]]:
    return _parse(parser(event, decoder), *(batch.column(name).to_pylist() for name in ("value", *record_parameters(decoder))))


def _parse(parse: Parse, *columns: Sequence[Any]) -> tuple[dict[int, Any], dict[int, Reject]]:
    """Decode each row of columns, of which the first holds values: the structs and the rejects, by row."""
    structs: dict[int, Any] = {}
    rejected: dict[int, Reject] = {}
    for row, read in enumerate(zip(*columns, strict=True)):
        if not (value := read[0]):
            rejected[row] = Reject("empty", "the record has no value" if value is None else "the value has no bytes")
            continue
        try:
            structs[row] = parse(*read)
        except Reject as reject:
            rejected[row] = reject
        except MemoryError:
            raise  # the machine's fault, not the record's
        except Exception as error:  # noqa: BLE001  the event type's own code may raise anything
            rejected[row] = Reject("refused", f"{type(error).__name__}: {error}")
    return structs, rejected


def _typed(fields: Sequence[Field], structs: Mapping[int, Any], rejected: dict[int, Reject]) -> pa.RecordBatch:
    """The structs as columns, after their row; what does not fit a column goes to `rejected`."""
    while True:
        rows, found = list(structs), list(structs.values())
        columns = [array(rows, pa.int64())]
        misfit: dict[int, Reject] = {}
        for field in fields:
            values = list(map(attrgetter(field.name), found))
            try:
                columns.append(column(field, values))
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001  which ones, and why, is found out below
                for index, reject in misfits(field, values).items():
                    misfit.setdefault(rows[index], reject)
        if not misfit:
            return pa.RecordBatch.from_arrays(columns, names=["_row", *(field.name for field in fields)])
        rejected.update(misfit)
        structs = {row: struct for row, struct in structs.items() if row not in misfit}


def _plausible(source: Source, batch: pa.RecordBatch, typed: pa.RecordBatch, rejected: dict[int, Reject]) -> pa.RecordBatch:
    """The rows whose event time is in the source's plausible range; the others go to `rejected`."""
    if source.event_time == APPEND_TIME:
        typed = _appended(batch, typed, rejected)
        times = batch.column("timestamp").take(typed.column("_row"))
    else:
        times = typed.column(source.event_time)
    low, high = (scalar(bound, times.type) for bound in source.plausible)
    inside = pc.and_(pc.greater_equal(times, low), pc.less(times, high))
    if pc.all(inside, min_count=0).as_py():
        return typed
    outside = pc.invert(inside)
    for row, time in zip(typed.column("_row").filter(outside).to_pylist(), times.filter(outside), strict=True):
        first, last = (bound.isoformat() for bound in source.plausible)
        rejected[row] = Reject("implausible_time", f"{source.event_time} {time} is not between {first} and {last}")
    return typed.filter(inside)


def _appended(batch: pa.RecordBatch, typed: pa.RecordBatch, rejected: dict[int, Reject]) -> pa.RecordBatch:
    """The rows whose timestamp is the log's own; the others go to `rejected`."""
    kinds = batch.column("timestamp_type").take(typed.column("_row"))
    own = pc.fill_null(pc.equal(kinds, scalar(LOG_APPEND_TIME, kinds.type)), False)
    for row in typed.column("_row").filter(pc.invert(own)).to_pylist():
        rejected[row] = Reject("producer_time", "the timestamp is its producer's; message.timestamp.type has to be LogAppendTime")
    return typed.filter(own)


def _rejects(batch: pa.RecordBatch, rejected: Mapping[int, Reject]) -> pa.Table:
    rows = sorted(rejected)
    bad = batch.take(array(rows, pa.int64()))
    return pa.Table.from_arrays(
        [
            *bad.select(_POSITION).columns,
            array([rejected[row].reason for row in rows], pa.string()),
            array([rejected[row].detail for row in rows], pa.string()),
            array([(value or b"")[:FIRST_BYTES] for value in bad.column("value").to_pylist()], pa.binary()),
        ],
        schema=REJECTS_SCHEMA,
    )
