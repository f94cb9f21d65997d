"""Decodes records of the archive again: reads them by their positions, without Spark."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import open_table
from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, file_ranges
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.kernel.kernel import decode
from tandem.views.kernel.rows import written
from tandem.views.source.event import event_schema
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import INDEX, REJECTED_INDEX, Source, record_columns

_PIECE: Final = 100
_SHOWN_EVENTS: Final = 3
_EVENT_PLACE: Final = (*EVENTS.names, INDEX)
_REJECT_PLACE: Final = (*RECORDS.names, REJECTED_INDEX.name)
_LONGEST: Final = 200

Positions = Mapping[Partition, Sequence[int]]
At = tuple[str, int, int, int | None]
"""Topic id, partition and offset of a record, and the index of one event of its list; None for the record."""


@dataclass(frozen=True)
class RetriedReject:
    """The outcome of `tried` records, and single events of lists.

    * `others`: the number of records of other sources, and of tombstones that the source skips.
    * `numbers`: by position, the number of events: one, or those of the record's list.
    * `events`: by position, the first of these events; long values are cut.
    * `rejects`: by position, the reason and the detail; of a record whose events are rejected alone, by the event's position.
    """

    tried: int
    others: int
    numbers: Mapping[At, int]
    events: Mapping[At, Sequence[Mapping[str, Any]]]
    rejects: Mapping[At, tuple[str, str]]

    @property
    def reasons(self) -> dict[str, int]:
        """The number of rejects, by reason."""
        return dict(Counter(reason for reason, _ in self.rejects.values()))


def decode_again(tables: Tables, source: Source, wanted: Iterable[At], schemas: RegistrySchemas | None = None) -> RetriedReject:
    """Decode what the archive has at these places. `schemas` are those that records name. Raises Unreadable, RegistryAway."""
    tried = others = 0
    numbers: Counter[At] = Counter()
    events: dict[At, list[dict[str, Any]]] = defaultdict(list)
    rejects: dict[At, tuple[str, str]] = {}
    chosen: dict[tuple[str, int, int], set[int | None]] = defaultdict(set)
    for topic, partition, offset, index in wanted:
        chosen[topic, partition, offset].add(index)
    for records in _records(tables, source, _by_partition(chosen)):
        decoded = decode(source if schemas is None else schemas.ready(source, records), records)
        tried += sum(len(chosen[place]) for place in _places(records, RECORDS.names))
        others += decoded.others + decoded.skipped
        for place, event in zip(_places(decoded.events, _EVENT_PLACE), _rows(source, decoded.events), strict=True):
            for at in _places_among(chosen, place):
                numbers[at] += 1
                if len(events[at]) < _SHOWN_EVENTS:
                    events[at].append(event)
        why = zip(decoded.rejects["reason"].to_pylist(), decoded.rejects["detail"].to_pylist(), strict=True)
        for place, reject in zip(_places(decoded.rejects, _REJECT_PLACE), why, strict=True):
            if place[3:] in ((), (None,)):
                rejects |= {(*place[:3], index): reject for index in chosen[place[:3]]}
            elif _places_among(chosen, place):
                rejects[place] = reject
    return RetriedReject(tried, others, numbers, events, rejects)


def _places_among(chosen: Mapping[tuple[str, int, int], set[int | None]], place: tuple[Any, ...]) -> list[At]:
    """The chosen places that an event is of: its record's, or its own in the record's list."""
    record, indexes = place[:3], {None, *place[3:]}
    return [(*record, index) for index in chosen[record] & indexes]


def _by_partition(places: Iterable[tuple[str, int, int]]) -> Positions:
    offsets: dict[Partition, list[int]] = defaultdict(list)
    for topic, partition, offset in places:
        offsets[topic, partition].append(offset)
    return offsets


def _records(tables: Tables, source: Source, wanted: Positions) -> Iterator[pa.Table]:
    """The archived records at these positions, in small tables; at most one row group is in memory."""
    address = tables.archive(source.name)
    handle = open_table(tables, address)
    if handle is None or not wanted:
        return
    columns = list(record_columns(source))
    for span in file_ranges(handle, RECORDS):
        if not any(span.overlap(place, (offset, offset + 1)) for place, offsets in wanted.items() for offset in offsets):
            continue
        with opened(Location.of(tables, address), span.path, verified=True) as file:
            for group in range(file.num_row_groups):
                mask = _among(file.read_row_group(group, RECORDS.names), wanted)
                if pc.any(mask).as_py():
                    chosen = file.read_row_group(group, columns).filter(mask)
                    yield from (chosen.slice(start, _PIECE) for start in range(0, chosen.num_rows, _PIECE))


def _among(rows: pa.Table, wanted: Positions) -> pa.ChunkedArray:
    topics, partitions, offsets = (rows[name] for name in RECORDS.names)
    masks = [
        pc.and_(
            pc.and_(pc.equal(topics, topic), pc.equal(partitions, partition)),
            pc.is_in(offsets, value_set=pa.array(chosen, offsets.type)),
        )
        for (topic, partition), chosen in wanted.items()
    ]
    return reduce(pc.or_, masks)


def _places(rows: pa.Table, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in columns if name in rows.column_names), strict=True))


def _rows(source: Source, events: pa.Table) -> Iterator[dict[str, Any]]:
    fields = event_schema(source.event)
    columns = [written(events[field.name].combine_chunks(), field) for field in fields]
    for row in zip(*columns, strict=True):
        yield {name: _short(value) for name, value in zip(fields.names, row, strict=True)}


def _short(value: Any) -> Any:
    """A value, or the beginning of its text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
