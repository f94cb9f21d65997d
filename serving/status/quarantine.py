"""Quarantined records and events of lists, as the archive recorded them: with their position and a reason."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import files as files_of
from tandem.ledger.delta.delta_tables import open_table
from tandem.ledger.delta.location import Location, opened
from tandem.serving.read.selection import BadSelection
from tandem.views.source.source import REJECTED_INDEX, REJECTS_SCHEMA

_ORDER: Final = [
    ("timestamp", "descending"),
    ("topic_id", "ascending"),
    ("partition", "ascending"),
    ("offset", "descending"),
    (REJECTED_INDEX.name, "descending"),
]
_SCHEMA: Final = REJECTS_SCHEMA.append(REJECTED_INDEX)
"""The columns of every source's rejects; the index is null for those that are whole records."""
_HELD: Final = 4


@dataclass(frozen=True)
class After:
    """A cursor in the order of rejects: it selects those after it. `at` are microseconds since 1970.

    `index` is the place of an event in its record's list, if the event is rejected alone; None for a whole record.
    """

    at: int
    topic_id: str
    partition: int
    offset: int
    index: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Inverse of `str`. Raises BadSelection."""
        at, *rest = text.split(".", 3)
        offset, separator, index = rest[1].partition("-") if len(rest) > 1 else ("", "", "")
        digits = [at.removeprefix("-"), *rest[:1], offset, *([index] if separator else [])]
        if len(rest) < 3 or not all(number.isascii() and number.isdigit() and len(number) < 19 for number in digits):
            raise BadSelection(f"invalid cursor {text!r}; use `next` from the previous page")
        return cls(int(at), rest[2], int(rest[0]), int(offset), int(index) if separator else None)

    @classmethod
    def of(cls, rejects: pa.Table) -> Self:
        """The cursor after the last of some rejects."""
        at, *place = (rejects[name][-1] for name, _ in _ORDER)
        return cls(at.cast(pa.int64()).as_py(), *(one.as_py() for one in place))

    def __str__(self) -> str:
        index = "" if self.index is None else f"-{self.index}"
        return f"{self.at}.{self.partition}.{self.offset}{index}.{self.topic_id}"

    def mask(self, rejects: pa.Table) -> pa.ChunkedArray:
        """Per row, whether it comes after this cursor."""
        at, topics, partitions, offsets = (rejects[name] for name in ("timestamp", "topic_id", "partition", "offset"))
        here = (self.topic_id, self.partition, self.offset)
        time = pa.scalar(self.at, pa.int64()).cast(at.type)
        topic, partition, offset = (
            pa.scalar(value, column.type) for value, column in zip(here, (topics, partitions, offsets), strict=True)
        )
        same_time, same_topic = pc.equal(at, time), pc.equal(topics, topic)
        in_record = pc.and_(pc.equal(offsets, offset), self._before_index(rejects[REJECTED_INDEX.name]))
        in_partition = pc.and_(pc.equal(partitions, partition), pc.or_(pc.less(offsets, offset), in_record))
        in_topic = pc.and_(same_topic, pc.or_(pc.greater(partitions, partition), in_partition))
        return pc.or_(pc.less(at, time), pc.and_(same_time, pc.or_(pc.greater(topics, topic), in_topic)))

    def _before_index(self, indexes: pa.ChunkedArray) -> pa.ChunkedArray:
        """Per row, whether it comes after this cursor's event among those of its record."""
        index = pa.scalar(-1 if self.index is None else self.index, indexes.type)
        return pc.less(pc.fill_null(indexes, -1), index)


@dataclass(frozen=True)
class RejectTotal:
    """The number of rejected records with a reason, and when the newest of them was appended."""

    reason: str
    records: int
    newest: datetime


def reject_totals(tables: Tables, source: str, decoder: str, *, reason: str | None = None) -> list[RejectTotal]:
    """The rejects of a source under a decoder's fingerprint, by reason, the most frequent first. Raises Unreadable."""
    totals: dict[str, RejectTotal] = {}
    for rows in _pieces(tables, source, decoder):
        groups = rows.group_by("reason").aggregate([([], "count_all"), ("timestamp", "max")])
        for name, count, newest in zip(*(groups[column].to_pylist() for column in groups.column_names), strict=True):
            before = totals.get(name, RejectTotal(name, 0, newest))
            totals[name] = RejectTotal(name, before.records + count, max(before.newest, newest))
    chosen = [total for total in totals.values() if reason in (None, total.reason)]
    return sorted(chosen, key=lambda total: (-total.records, total.reason))


def rejects(
    tables: Tables,
    source: str,
    decoder: str,
    *,
    reason: str | None = None,
    after: After | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Rejects of a source under a decoder's fingerprint, the newest append first, at most `limit`: as REJECTS_SCHEMA says, with
    the index of an event that is rejected alone.

    None before the first archive run. With a limit, at most a few times this many rows, and a row group, are in memory. Raises
    Unreadable.
    """
    held = pa.Table.from_batches([], _SCHEMA)
    for rows in _pieces(tables, source, decoder):
        chosen = rows if reason is None else rows.filter(pc.equal(rows["reason"], reason))
        held = pa.concat_tables([held, chosen if after is None else chosen.filter(after.mask(chosen))])
        if limit is not None and held.num_rows > _HELD * max(limit, 1):
            held = _newest(held, limit)
    return _newest(held, limit)


def _newest(rejects: pa.Table, limit: int | None) -> pa.Table:
    order = pc.sort_indices(rejects, sort_keys=_ORDER)
    return rejects.take(order if limit is None else order.slice(0, limit))


def _pieces(tables: Tables, source: str, decoder: str) -> Iterator[pa.Table]:
    address = tables.quarantine(source, decoder)
    handle = open_table(tables, address)
    for path in [] if handle is None else files_of(handle):
        with opened(Location.of(tables, address), path, verified=True) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, [name for name in _SCHEMA.names if name in file.schema_arrow.names])
                if REJECTED_INDEX.name not in rows.column_names:
                    rows = rows.append_column(REJECTED_INDEX, pa.nulls(rows.num_rows, REJECTED_INDEX.type))
                yield rows.cast(_SCHEMA)
