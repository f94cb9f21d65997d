"""Records of a source that its events table does not have: from the archive, then from its topics."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.kafka.bulk_reader import LogMoved
from tandem.infra.kafka.source_topics import topics_of
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import RECORDS, log_table
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, ranges
from tandem.ledger.log.registry_schemas import schemas_in
from tandem.serving.read.outcome import ReadFailed
from tandem.views.decode.schema_ids import needs_registry
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source, record_columns

_AT_ONCE: Final = 10_000

LogTail = Callable[[Source, Ranges], Iterator[tuple[Source, pa.Table]]]
"""The records of these offsets of a source's log, with the columns that decoding reads, and the source that decodes them."""


@dataclass(frozen=True)
class TopicTail:
    """Reads a project's topics: a LogTail."""

    settings: Settings
    tables: Tables

    def __call__(self, source: Source, missing: Ranges) -> Iterator[tuple[Source, pa.Table]]:
        """The records of these offsets. Raises ReadFailed, which says how to continue without the broker, and Unreadable."""
        schemas = schemas_in(self.settings.registry, self.tables) if needs_registry(source) else None
        for records in self._records(source, missing):
            yield source if schemas is None else schemas.ready(source, records), records

    def _records(self, source: Source, missing: Ranges) -> Iterator[pa.Table]:
        """Those that are archived, as of an earlier decoder whose events table is gone; then those of the topics."""
        ledger = ArchiveLedger(self.tables, source.name)
        archived = missing.within(ranges(LOG_START, ledger.archived(), ledger.firsts()))
        if archived.length:
            table = log_table(self.tables, self.tables.archive(source.name), RECORDS)
            part = Slice(archived, tuple(file.path for file in table.files), 0)
            yield from scan(table.place, part, RECORDS, record_columns(source), rows=_AT_ONCE, verified=True)
        if (beyond := missing.without(archived)).length:
            yield from self._of_topics(source, beyond)

    def _of_topics(self, source: Source, missing: Ranges) -> Iterator[pa.Table]:
        try:
            address = broker.address(self.settings)
            topics = topics_of(kafka.connect(address), source)
            for place, intervals in missing.intervals:
                if place[0] not in {topic.id for topic in topics}:
                    raise ReadFailed(
                        f"{missing.length} records of source {source.name!r} that answers count are not archived, and their "
                        f"topic {place[0]} no longer exists"
                    )
                for interval in intervals:
                    yield from kafka.records_within(address, topics, place, interval, columns=record_columns(source))
        except (LogMoved, kafka.NoBroker, kafka.NoTopic) as error:
            raise ReadFailed(
                f"{missing.length} records of source {source.name!r} that answers count are not archived yet: {error}; run "
                "`tandem archive` and ask again"
            ) from error
