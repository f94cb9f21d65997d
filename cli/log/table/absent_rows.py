"""The rows of a table that a snapshot did not bring again, and the deletes that take them out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tandem.cli.log.table.delete_forms import DeleteForm
from tandem.cli.log.table.table_log import BroughtKeys, NotRebuilt, Row, TableLog
from tandem.infra import kafka
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Failed, ReadFailed
from tandem.serving.read.touched_rows import split
from tandem.views.arrow import arrays
from tandem.views.composite.table import Table
from tandem.views.counted import counted
from tandem.views.kernel.kernel import Partial, decode, deduplicate, merge, partial_of, prepare, present, roll
from tandem.views.kernel.rows import written
from tandem.views.project.partition_key import record_keys
from tandem.views.source.offset_ranges import EMPTY, Offsets
from tandem.views.source.source import RECORDS_SCHEMA
from tandem.views.view import answer_schema, bind
from tandem.views.windows import Current

HEADER: Final = "tandem-table-rebuild"
"""The header of every delete that is appended here; its value is the table's name."""

_AT_ONCE: Final = 10_000
_ALL: Final = 2**31
_AFTER: Final = 2**62
"""An offset after all records."""
_SHOWN: Final = 3


@dataclass(frozen=True)
class AbsentRows:
    """Rows of a table by their states, in the order of their keys, each with the newest record of its key."""

    table: Table
    states: pa.Table
    records: Sequence[Row]

    def take(self, numbers: Sequence[int]) -> "AbsentRows":
        """Some of the rows."""
        return AbsentRows(self.table, self.states.take(pa.array(numbers, pa.int64())), [self.records[row] for row in numbers])

    def without(self, brought: BroughtKeys) -> "AbsentRows":
        """Those about whose keys there is nothing there."""
        return self.take(brought.lack(self.states, [row["key"] for row in self.records]))

    def keys(self) -> list[dict[str, Any]]:
        """The keys, as rows of answers have them."""
        schema = answer_schema(self.table)
        columns = [written(arrays.whole(self.states[name]), schema.field(name)) for name in self.table.keys]
        return [dict(zip(self.table.keys, key, strict=True)) for key in zip(*columns, strict=True)]


def absent_rows(log: TableLog, reader: Reader, brought: BroughtKeys, ends: Offsets) -> AbsentRows:
    """The table's rows at the reader's snapshot whose keys were not brought, and whose newest versions are below `ends`.

    Raises NotRebuilt, ReadFailed, Unreadable.
    """
    table = log.table
    arranged = reader.arranged_at(reader.snapshot(), table.parent)
    if isinstance(arranged, Failed):
        raise ReadFailed(arranged.reason)
    states = roll(table, split(arranged.states)[0])
    assert isinstance(table.window, Current)  # else nothing takes a row out
    states = table.window.remaining(states).sort_by([(name, "ascending") for name in table.keys])
    candidates = states.take(pa.array(brought.lack(states, [None] * states.num_rows), pa.int64()))
    newest = arrays.whole(candidates[bind(table).measures[0].columns[0]])
    numbers = zip(*(newest.field(name).to_pylist() for name in ("generation", "partition", "offset")), strict=True)
    places = [(log.generations[generation], partition, _offset_of(place)) for generation, partition, place in numbers]
    below = [row for row, (topic, partition, offset) in enumerate(places) if offset < ends.get((topic, partition), offset + 1)]
    candidates, places = candidates.take(pa.array(below, pa.int64())), [places[row] for row in below]
    there = log.records_at(places)
    if lost := [place for place in places if place not in there]:
        topic, partition, offset = lost[0]
        raise NotRebuilt(
            f"neither the archive nor the topic has the newest record of {counted(len(lost), 'key')}, such as "
            f"{topic}/{partition}:{offset}, of which a delete would be made; run `tandem archive` first"
        )
    return AbsentRows(table, candidates, [there[place] for place in places]).without(brought)


def _offset_of(place: Any) -> int:
    """The offset of a place in the log, which is a pair where events have an index."""
    return int(place["offset"] if isinstance(place, dict) else place)


@dataclass(frozen=True)
class Deletes:
    """The deletes of rows: the records in the rows' order, each with its partition; None where its key decides."""

    rows: AbsentRows
    records: Sequence[tuple[int | None, kafka.Record]]


def deletes(log: TableLog, rows: AbsentRows, form: DeleteForm) -> Deletes:
    """The deletes of these rows. Raises NotRebuilt unless exactly these rows would leave the table."""
    records = []
    for row in rows.records:
        value, of_topic = form(row), row["topic_id"] == log.topic.id
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or () if header["key"] != HEADER)
        key = row["key"] if of_topic else record_keys(log.source, [value])[0]
        record = kafka.Record(0, key, value, (*headers, (HEADER, log.table.name.encode())))
        records.append((row["partition"] if of_topic else None, record))
    _refuse_what_stays(log, rows, [record for _, record in records])
    return Deletes(rows, records)


def _refuse_what_stays(log: TableLog, rows: AbsentRows, records: Sequence[kafka.Record]) -> None:
    """Raise NotRebuilt unless the deletes count, and take out all of these rows, by the meaning of the table itself."""
    if not records:
        return
    table = pa.Table.from_pylist(
        [
            {
                "topic_id": log.generations[-1],
                "partition": row["partition"],
                "offset": _AFTER + number,
                "timestamp": row["timestamp"],
                "timestamp_type": row["timestamp_type"],
                "key": record.key,
                "value": record.value,
                "headers": [{"key": name, "value": value} for name, value in record.headers],
            }
            for number, (row, record) in enumerate(zip(rows.records, records, strict=True))
        ],
        schema=RECORDS_SCHEMA,
    )
    source = log.schemas.ready(log.source, table)
    decoded = decode(source, table)
    if decoded.rejects.num_rows:
        detail = decoded.rejects["detail"][0].as_py()
        raise NotRebuilt(f"{counted(decoded.rejects.num_rows, 'delete')} would be rejected by source '{source.name}': {detail}")
    before = decode(source, pa.Table.from_pylist([*rows.records], schema=RECORDS_SCHEMA)).events
    events = deduplicate(source, decoded.events, before, generations=log.generations).events
    if lost := decoded.events.num_rows - events.num_rows:
        raise NotRebuilt(
            f"{counted(lost, 'delete')} would be a duplicate by the identity of source '{source.name}', "
            f"{', '.join(source.identity)}, and would not count; send the deletes yourself: --out lists the keys"
        )
    partial = partial_of(log.table, prepare(source, events, log.generations).events, EMPTY)
    left = present(log.table, merge(log.table, [Partial(rows.states), partial]))
    if left.num_rows:
        names = [*log.table.keys]
        some = ", ".join(str(row) for row in left.select(names).slice(0, _SHOWN).to_pylist())
        raise NotRebuilt(
            f"deletes would not take out {left.num_rows} of {counted(len(records), 'row')}, such as {some}: their newest "
            "versions are later than the snapshot, or a delete does not meet the table's `gone` or `where`"
        )


def appender_of(log: TableLog) -> "kafka.ExactlyOnceAppender":
    """The producer of a table's deletes: the log has all of what an earlier one committed. Raises NoBroker, BrokerRefused."""
    return kafka.ExactlyOnceAppender(log.connection.address, log.topic, f"tandem-rebuild.{log.source.name}", log.ends())


def append(log: TableLog, appender: "kafka.ExactlyOnceAppender", of: Deletes, ends: Offsets) -> int:
    """Append the deletes, in transactions; returns how many were appended.

    A row about whose key another producer appends a record after `ends`, and before its delete, stays. Raises NotSent,
    ProducerFenced, NoBroker: what was appended before stays.
    """
    appended, numbers = 0, [*range(len(of.records))]
    for start in range(0, len(numbers), _AT_ONCE):
        part = numbers[start : start + _AT_ONCE]
        while part and not _append_part(log, appender, of, part, ends):
            part = _rows_without_changes(log, of, part, ends)
        appended += len(part)
    return appended


def _append_part(log: TableLog, appender: "kafka.ExactlyOnceAppender", of: Deletes, part: Sequence[int], ends: Offsets) -> bool:
    """Append the deletes of these rows, or nothing if another producer has appended a record about one of their keys."""
    records = [of.records[number] for number in part]
    placed = [(partition, record) for partition, record in records if partition is not None]
    others = [record for partition, record in records if partition is None]
    return appender.append(others, "", placed=placed, check=lambda: len(_rows_without_changes(log, of, part, ends)) == len(part))


def _rows_without_changes(log: TableLog, of: Deletes, part: Sequence[int], ends: Offsets) -> list[int]:
    """Those rows about whose keys no other producer has appended a record since, committed or not."""
    there = kafka.records(log.connection, [log.topic], ends, most=_ALL, committed=False)
    rows = [
        {
            "topic_id": topic,
            "partition": partition,
            "offset": ends[topic, partition] + number,
            "timestamp": record.milliseconds * 1000,
            "timestamp_type": 0,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": name, "value": value} for name, value in record.headers],
        }
        for (topic, partition), records in there.items()
        for number, record in enumerate(records)
        if all(name != HEADER for name, _ in record.headers)
    ]
    brought = log.keys_in(pa.Table.from_pylist(rows, schema=RECORDS_SCHEMA))
    states = of.rows.states.take(pa.array(part, pa.int64()))
    return [part[row] for row in brought.lack(states, [of.rows.records[number]["key"] for number in part])]
