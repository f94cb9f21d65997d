"""The newest snapshot of a database's table in the log, by what Debezium writes into the rows of snapshots.

All rows of a snapshot have the operation `r` and one time, when it began. `source.snapshot` is `first`, `true` and so on; the
last row of each table has `last_in_data_collection`, or `last`. A snapshot that was started again has another time. Rows of
incremental snapshots have `incremental`, and nothing marks the last one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final

import pyarrow.compute as pc

from tandem.cli.log.table.table_log import NotRebuilt, Row, TableLog
from tandem.infra import kafka
from tandem.views.counted import counted
from tandem.views.instant import time_of, utc_text
from tandem.views.kernel.kernel import decode
from tandem.views.source.event import Event, Name
from tandem.views.source.offset_ranges import Offsets, Partition
from tandem.views.source.source import Source

_LAST: Final = frozenset({"last", "last_in_data_collection"})
_INCREMENTAL: Final = "incremental"


class SnapshotChange(Event):
    """What a change says about the snapshot that it is a row of."""

    at: Annotated[datetime, Name("__source_ts_ms")]
    op: Annotated[str, Name("__op")]
    microseconds: Annotated[int | None, Name("__source_ts_us")] = None
    snapshot: Annotated[str | None, Name("__snapshot")] = None
    table: Annotated[str | None, Name("__table")] = None


@dataclass
class TableSnapshot:
    """The rows of a snapshot: when it `began`, the `firsts` of partitions with some, and by table whether its last row is there.

    `sent` is the least timestamp of their records, `sample` one of the rows.
    """

    began: datetime
    rows: int = 0
    firsts: dict[Partition, int] = field(default_factory=dict)
    tables: dict[str | None, bool] = field(default_factory=dict)
    sent: datetime | None = None
    sample: Row = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the log has the last row of each table."""
        return all(self.tables.values())


def newest_snapshot(log: TableLog, ends: Offsets) -> TableSnapshot:
    """The newest snapshot below these ends. Raises NotRebuilt if the log has none, or if it is not complete."""
    snapshots: dict[datetime, TableSnapshot] = {}
    for change, row in _changes(log, kafka.starts(log.connection, [log.topic]), ends):
        if change["snapshot"] != _INCREMENTAL:
            _count(snapshots.setdefault(change["began"], TableSnapshot(change["began"])), change, row)
    if not snapshots:
        raise NotRebuilt(
            f"topic '{log.topic.name}' has no row of a snapshot; name its beginning with --from, such as --from 2026-11-01T08:00"
        )
    newest = snapshots[max(snapshots)]
    if not newest.complete:
        raise NotRebuilt(
            f"the snapshot of {utc_text(newest.began)} is not complete: topic '{log.topic.name}' has "
            f"{counted(newest.rows, 'row')} of it, and not the last one; run this again when Debezium has sent it"
        )
    return newest


def snapshot_from(log: TableLog, starts: Offsets, ends: Offsets) -> TableSnapshot:
    """All rows of snapshots between these offsets as one snapshot. Raises NotRebuilt without any."""
    whole: TableSnapshot | None = None
    for change, row in _changes(log, starts, ends):
        if whole is None or change["began"] >= whole.began:
            whole = TableSnapshot(change["began"], 0 if whole is None else whole.rows)
        _count(whole, change, row)
    if whole is None:
        raise NotRebuilt(f"topic '{log.topic.name}' has no row of a snapshot from there on")
    return whole


def _count(snapshot: TableSnapshot, change: Row, row: Row) -> None:
    place, last = (row["topic_id"], row["partition"]), change["snapshot"] in _LAST
    snapshot.rows += 1
    snapshot.firsts[place] = min(row["offset"], snapshot.firsts.get(place, row["offset"]))
    snapshot.tables[change["table"]] = last or snapshot.tables.get(change["table"], False)
    snapshot.sent = min(row["timestamp"], snapshot.sent or row["timestamp"])
    if change["began"] >= snapshot.began:
        snapshot.sample = row


def _changes(log: TableLog, starts: Offsets, ends: Offsets) -> Iterator[tuple[Row, Row]]:
    """What each row of a snapshot says about it, with its record."""
    source = Source(topic=log.topic.name, event=SnapshotChange, event_time="at", decoder=log.source.decoder, name=log.source.name)
    for records in log.records(starts, ends):
        events = decode(log.schemas.ready(source, records), records).events
        events = events.filter(pc.equal(events["op"], "r"))
        if not events.num_rows:
            continue
        places = zip(records["partition"].to_pylist(), records["offset"].to_pylist(), strict=True)
        numbers = {place: number for number, place in enumerate(places)}
        for change in events.to_pylist():
            row = records.slice(numbers[change["_partition"], change["_offset"]], 1).to_pylist()[0]
            us = change["microseconds"]
            yield {**change, "began": change["at"] if us is None else time_of(us)}, row
