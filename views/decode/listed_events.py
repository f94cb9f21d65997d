"""Lists of which each event counts or is rejected by itself."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pyarrow as pa

from tandem.views.arrow.python_values import array
from tandem.views.decode.lists import ListReading
from tandem.views.decode.value_parsers import parse_values, parser
from tandem.views.errors import said_by
from tandem.views.source.event import Field, event_fields
from tandem.views.source.fields.columns import column, misfits
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.rounded import ROUNDED, roundings_by_event, rounds
from tandem.views.source.schema_version import Version
from tandem.views.source.source import INDEX, Source

Readings = dict[int, ListReading]
"""By the row of their record."""

At = tuple[int, int]
"""The row of a record and the index of an event in its list."""


def list_events(source: Source, batch: pa.RecordBatch, *, row: str) -> tuple[pa.RecordBatch, Readings, dict[int, Reject]]:
    """The events as columns after their place, all readings, and the rejects of records without a list.

    `row` names the column of the events' rows. An event that the event type rejects is read as each older version in turn, by
    its index in the list that the version reads. If the lists differ in length, no event has a counterpart: then the
    version's list is taken whole, and only where the event type accepts no event of the record.
    """
    fields = event_fields(source.event)
    readings, rejected = parse_values(source, source.event, source.decoder, batch)
    typed = _columns(fields, readings, row)
    failed: set[At] = set()
    before = len(readings), _rejects(readings)
    for version in source.versions:
        rows = sorted({place[0] for place in _rejects(readings) - failed} | rejected.keys())
        if not rows:
            break
        older, _ = parse_values(source, version.event, version.decoder, batch.take(array(rows, pa.int64())))
        # A value that does not fit its column is not of this version.
        _columns(event_fields(version.event), older, row)
        for number, reading in older.items():
            if reading.has_events:
                failed |= _take_older(source, version, readings, (rows[number], reading), failed)
                rejected.pop(rows[number], None)
    if (len(readings), _rejects(readings)) != before:
        readings = dict(sorted(readings.items()))
        typed = _columns(fields, readings, row)
    return typed, readings, rejected


def _take_older(
    source: Source, version: Version, readings: Readings, read: tuple[int, ListReading], failed: Container[At]
) -> set[At]:
    """Take from an older version's reading of a row the events that its record lacks; returns those whose upgrade fails.

    `failed` are the events whose upgrade failed before: no older version reads them.
    """
    row, older = read
    current = readings.get(row)
    if current is None or (not current.has_events and len(current.outcomes) != len(older.outcomes)):
        current = readings[row] = replace(older, outcomes=list(older.outcomes))
        wanted = list(range(len(older.outcomes)))
    elif len(current.outcomes) == len(older.outcomes):
        rejects = [index for index, outcome in enumerate(current.outcomes) if isinstance(outcome, Reject)]
        wanted = [index for index in rejects if (row, index) not in failed]
    else:
        return set()
    refused = set()
    upgrade = parser(source.event, version.upgrade)
    for index in wanted:
        if isinstance(older.outcomes[index], Reject):
            continue
        try:
            current.outcomes[index] = upgrade(older.outcomes[index])
        except (MemoryError, KeyboardInterrupt):
            raise
        except Reject as reject:
            current.outcomes[index] = reject
        except BaseException as error:  # noqa: BLE001  the project's own code may raise anything
            current.outcomes[index] = Reject("upgrade", f"{version.upgrade.__name__}: {said_by(error)}")
        if isinstance(current.outcomes[index], Reject):
            refused.add((row, index))
    return refused


def _rejects(readings: Mapping[int, ListReading]) -> set[At]:
    return {
        (row, index)
        for row, reading in readings.items()
        for index, outcome in enumerate(reading.outcomes)
        if isinstance(outcome, Reject)
    }


def rejects_by_event(readings: Mapping[int, ListReading]) -> dict[At, Reject]:
    """The rejects of single events."""
    return {(row, index): readings[row].outcomes[index] for row, index in _rejects(readings)}


def _columns(fields: Sequence[Field], readings: Mapping[int, ListReading], row: str) -> pa.RecordBatch:
    """The events as columns, after their rows and indexes; an event that does not fit becomes a reject in its reading."""
    while True:
        places = [(number, index) for number, reading in readings.items() for index in range(len(reading.outcomes))]
        structs = [outcome for reading in readings.values() for outcome in reading.outcomes]
        if any(isinstance(struct, Reject) for struct in structs):
            kept = [number for number, struct in enumerate(structs) if not isinstance(struct, Reject)]
            places, structs = [places[number] for number in kept], [structs[number] for number in kept]
        rows = array([number for number, _ in places], pa.int64())
        columns = {row: rows, INDEX: array([index for _, index in places], pa.int32())}
        wrong: dict[int, Reject] = {}
        for field in fields:
            values: list[Any] = list(map(attrgetter(field.name), structs))
            try:
                columns[field.name] = column(field, values)
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001  the code below finds which values, and why
                wrong = misfits(field, values) | wrong
        if not wrong:
            if rounds(fields):
                columns[ROUNDED] = roundings_by_event(fields, structs)
            return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        for number, reject in wrong.items():
            at, index = places[number]
            readings[at].outcomes[index] = reject
