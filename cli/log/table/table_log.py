"""The log of a table: the records of its source's one topic, and the keys of the table that some of them are about."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.batch.transfer.archived_records import Records
from tandem.infra import kafka
from tandem.infra.kafka.source_topics import topics_of
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.registry_schemas import RegistrySchemas, schemas_in
from tandem.views.composite.table import Table
from tandem.views.errors import TandemError
from tandem.views.kernel.kernel import decode, partial_of, prepare
from tandem.views.source.offset_ranges import EMPTY, Interval, Offsets, Partition
from tandem.views.source.source import RECORDS_SCHEMA, Source
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted

Row = Mapping[str, Any]
"""A record, as RECORDS_SCHEMA has it."""

_PIECE: Final = 10_000
_ROW: Final = "_row"


class NotRebuilt(TandemError, code="rebuild-impossible"):
    """Rows of a table cannot be taken out; nothing was appended."""


@dataclass
class BroughtKeys:
    """The keys of a table that records are about: as the table has them, and the keys of the records themselves.

    A record that is not decoded is about its own key alone.
    """

    keys: pa.Table
    of_records: set[bytes] = field(default_factory=set)

    def add(self, other: "BroughtKeys") -> None:
        """Add keys."""
        self.keys = pa.concat_tables([self.keys, other.keys]).group_by(self.keys.column_names).aggregate([])
        self.of_records |= other.of_records

    def lack(self, states: pa.Table, keys_of_records: Sequence[bytes | None]) -> list[int]:
        """The numbers of the rows about whose keys there is nothing here. A row has a key of the table and that of a record."""
        names = self.keys.column_names
        same = " AND ".join(f"s.{quoted(name)} IS NOT DISTINCT FROM b.{quoted(name)}" for name in names) or "true"
        rows = states.select(names).append_column(_ROW, pa.array(range(states.num_rows), pa.int64()))
        absent = engine.query(f"SELECT {_ROW} FROM s ANTI JOIN b ON {same} ORDER BY 1", {"s": rows, "b": self.keys})
        return [row for row in absent[_ROW].to_pylist() if keys_of_records[row] not in self.of_records]


@dataclass(frozen=True)
class TableLog:
    """The topic of a table's source at a broker, and the archive of the source."""

    settings: Settings
    tables: Tables
    table: Table
    connection: "kafka.BrokerConnection"
    topic: kafka.Topic
    schemas: RegistrySchemas
    generations: tuple[str, ...]

    @property
    def source(self) -> Source:
        """The source whose events are the versions."""
        return self.table.lookup_source

    def ends(self, *, committed: bool = True) -> Offsets:
        """The end of each partition's committed records, or of all. Raises NoBroker."""
        return kafka.ends(self.connection, [self.topic], committed=committed)

    def records(self, starts: Offsets, ends: Offsets) -> Iterator[pa.Table]:
        """The records of the topic between these offsets, as RECORDS_SCHEMA. Raises NoBroker, LogMoved."""
        for place, end in sorted(ends.items()):
            if starts.get(place, 0) < end:
                interval = (starts.get(place, 0), end)
                yield from self._piece(place, interval)

    def keys_in(self, records: pa.Table) -> BroughtKeys:
        """The keys that records of the topic are about."""
        source = self.schemas.ready(self.source, records)
        events = prepare(self.source, decode(source, records).events, self.generations).events
        keys = partial_of(self.table, events, EMPTY).states.select([*self.table.keys])
        return BroughtKeys(keys, {key for key in records["key"].to_pylist() if key is not None})

    def nothing(self) -> BroughtKeys:
        """The keys of no record."""
        return self.keys_in(RECORDS_SCHEMA.empty_table())

    def records_at(self, places: Iterable[tuple[str, int, int]]) -> dict[tuple[str, int, int], Row]:
        """The records at these topic ids, partitions and offsets, from the archive, else from the topic; others are left out."""
        wanted: dict[Partition, set[int]] = {}
        for topic, partition, offset in places:
            wanted.setdefault((topic, partition), set()).add(offset)
        archive, rows = Records.archived(self.tables, self.source.name), dict[tuple[str, int, int], Row]()
        for place, offsets in wanted.items():
            interval = (min(offsets), max(offsets) + 1)
            rows |= _among(archive.of(place).read(place, interval, rows=_PIECE), offsets)
            left = {offset for offset in offsets if (*place, offset) not in rows}
            if left and place[0] == self.topic.id:
                first = kafka.starts(self.connection, [self.topic]).get(place, 0)
                rows |= _among(self._piece(place, (max(first, min(left)), max(left) + 1)), left)
        return rows

    def _piece(self, place: Partition, interval: Interval) -> Iterator[pa.Table]:
        return kafka.records_within(self.connection.address, [self.topic], place, interval, columns=RECORDS_SCHEMA.names)


def open_log(settings: Settings, tables: Tables, table: Table, connection: "kafka.BrokerConnection") -> TableLog:
    """The log of a table. Raises NotRebuilt unless its source has one topic, NoBroker, NoTopic."""
    source = table.lookup_source
    topics = topics_of(connection, source)
    if len(topics) != 1:
        raise NotRebuilt(
            f"source '{source.name}' reads {len(topics)} topics, and a snapshot of one says nothing about the rows of others; "
            "`table rebuild` takes a table of one topic: make a source and a table for each, or send the deletes yourself"
        )
    ledger = ArchiveLedger(tables, source.name)
    schemas = schemas_in(settings.registry, tables)
    generations = tuple(dict.fromkeys([*ledger.generations(), topics[0].id]))
    return TableLog(settings, tables, table, connection, topics[0], schemas, generations)


def _among(pieces: Iterable[pa.Table], offsets: set[int]) -> dict[tuple[str, int, int], Row]:
    """The records of these offsets, by place."""
    wanted, rows = pa.array(sorted(offsets), pa.int64()), dict[tuple[str, int, int], Row]()
    for piece in pieces:
        chosen = piece.filter(pc.is_in(piece["offset"], value_set=wanted))
        rows |= {(row["topic_id"], row["partition"], row["offset"]): row for row in chosen.to_pylist()}
    return rows
