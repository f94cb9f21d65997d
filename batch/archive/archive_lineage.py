"""Reports archive runs to OpenLineage: topics into archive, events and quarantine."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from tandem.batch.runtime.session import BatchRun
from tandem.infra.kafka import broker
from tandem.infra.lineage import data_set
from tandem.infra.lineage.data_set import DataSet, DataSets
from tandem.ledger.delta import delta_tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.publish.releases import Release
from tandem.views.source.event import event_schema
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import RECORDS_SCHEMA, Source, events_schema, rejects_schema

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tandem.infra.lineage.runs import ReportedRun, Reporter


def archiving(
    reporter: "Reporter", batch: BatchRun, release: Release, source: Source
) -> "AbstractContextManager[ReportedRun | None]":
    """The run that archives a source: its inputs are the offsets of each topic that it archives."""
    tables, name, decoder = batch.tables, source.name, release.sources[source.name]
    ledger = ArchiveLedger(tables, name)
    start = ledger.archived() if reporter.sending is not None else LOG_START

    def look() -> DataSets:
        end = ledger.archived()
        names = ledger.topic_names()
        address = broker.address(batch.settings).bootstrap
        schema = event_schema(source.event)
        read = [
            data_set.topic(address, topic, schema, ranges(_of(start, topic, names), _of(end, topic, names)))
            for topic in source.topics_among(names.values())
        ]
        made = ranges(start, end)
        outputs = [(tables.archive(name), RECORDS_SCHEMA), (tables.events(name, decoder), events_schema(source))]
        outputs.append((tables.quarantine(name, decoder), rejects_schema(source)))
        return DataSets(tuple(read), tuple(table(batch, address, schema, made) for address, schema in outputs))

    return reporter.run(f"archive.{name}", "BATCH", look, release=release.number)


def table(batch: BatchRun, address: str, schema: pa.Schema, positions: Ranges | None = None) -> DataSet:
    """A Delta table as a data set, at its current version."""
    handle = delta_tables.open_table(batch.tables, address)
    return data_set.table(address, schema, None if handle is None else handle.version(), positions)


def _of(position: Position, topic: str, names: Mapping[str, str]) -> Position:
    """The part of a position in one topic; `names` are the topics' names by id."""
    return Position.of({partition: offset for partition, offset in position.items() if names.get(partition[0]) == topic})
