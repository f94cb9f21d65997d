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
from tandem.ledger.files.file_ranges import RECORDS, file_ranges
from tandem.views.kernel.kernel import decode
from tandem.views.kernel.rows import written
from tandem.views.source.event import event_schema
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import Source, record_columns

_PIECE: Final = 100
_EVENTS: Final = 3
_LONGEST: Final = 200

Positions = Mapping[Partition, Sequence[int]]
At = tuple[str, int, int]
"""Topic id, partition and offset of a record."""


@dataclass(frozen=True)
class RetriedReject:
    """The outcome of `tried` records.

    * `others`: the number of records of other sources.
    * `numbers`: by position, the number of the record's events.
    * `events`: by position, the first of these events; long values are cut.
    * `rejects`: by position, the reason and the detail.
    """

    tried: int
    others: int
    numbers: Mapping[At, int]
    events: Mapping[At, Sequence[Mapping[str, Any]]]
    rejects: Mapping[At, tuple[str, str]]

    @property
    def reasons(self) -> dict[str, int]:
        """The number of records that are not events, by reason."""
        return dict(Counter(reason for reason, _ in self.rejects.values()))


def decode_again(tables: Tables, source: Source, wanted: Iterable[At]) -> RetriedReject:
    """Decode the records at these places (topic id, partition, offset) that the archive has. Raises Unreadable."""
    tried = others = 0
    numbers: Counter[At] = Counter()
    events: dict[At, list[dict[str, Any]]] = defaultdict(list)
    rejects: dict[At, tuple[str, str]] = {}
    for records in _records(tables, source, _by_partition(wanted)):
        decoded = decode(source, records)
        tried += records.num_rows
        others += decoded.others
        for place, event in zip(_places(decoded.events, "_"), _rows(source, decoded.events), strict=True):
            numbers[place] += 1
            if len(events[place]) < _EVENTS:
                events[place].append(event)
        told = zip(decoded.rejects["reason"].to_pylist(), decoded.rejects["detail"].to_pylist(), strict=True)
        rejects |= dict(zip(_places(decoded.rejects), told, strict=True))
    return RetriedReject(tried, others, numbers, events, rejects)


def _by_partition(places: Iterable[At]) -> Positions:
    found: dict[Partition, list[int]] = defaultdict(list)
    for topic, partition, offset in places:
        found[topic, partition].append(offset)
    return found


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


def _places(rows: pa.Table, prefix: str = "") -> list[At]:
    return list(zip(*(rows[f"{prefix}{name}"].to_pylist() for name in RECORDS.names), strict=True))


def _rows(source: Source, events: pa.Table) -> Iterator[dict[str, Any]]:
    fields = event_schema(source.event)
    columns = [written(events[field.name].combine_chunks(), field) for field in fields]
    for row in zip(*columns, strict=True):
        yield {name: _short(value) for name, value in zip(fields.names, row, strict=True)}


def _short(value: Any) -> Any:
    """A value, or the beginning of its text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
