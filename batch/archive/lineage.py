"""What archive and recompute tell of their runs: topics into archive, events and quarantine; events into views."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from batch.runtime.session import Run
from infra import broker
from infra.lineage import data_set
from infra.lineage.data_set import DataSet, DataSets, Made
from ledger import archive, delta, publications
from ledger.parts import BatchView
from ledger.positions import LOG_START, Position, ranges
from ledger.releases import Release
from views.event import event_schema
from views.lineage import lineage
from views.ranges import Ranges
from views.source import RECORDS_SCHEMA, REJECTS_SCHEMA, Source, events_schema
from views.view import View, state_schema

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from batch.recompute.build import Built
    from batch.recompute.plan import Step
    from infra.lineage.runs import Reporter, Told


def archiving(reporter: "Reporter", batch: Run, release: Release, source: Source) -> "AbstractContextManager[Told | None]":
    """The run that archives a source: its inputs are the offsets of each topic that came to the archive meanwhile."""
    tables, name, decoder = batch.tables, source.name, release.sources[source.name]
    start = archive.archived(tables, name) if reporter.sending is not None else LOG_START

    def look() -> DataSets:
        end = archive.archived(tables, name)
        names = archive.topic_names(tables, name)
        address = broker.address(batch.settings).bootstrap
        schema = event_schema(source.event)
        read = [
            data_set.topic(address, topic, schema, ranges(_of(start, topic, names), _of(end, topic, names)))
            for topic in source.topics
        ]
        made = ranges(start, end)
        outputs = [(tables.archive(name), RECORDS_SCHEMA), (tables.events(name, decoder), events_schema(source))]
        outputs.append((tables.quarantine(name, decoder), REJECTS_SCHEMA))
        return DataSets(tuple(read), tuple(_table(batch, address, schema, made) for address, schema in outputs))

    return reporter.run(f"archive.{name}", "BATCH", look, release=release.number)


def recomputing(
    reporter: "Reporter",
    batch: Run,
    release: Release,
    source: Source,
    views: Mapping[str, View],
    *,
    step: "Step",
    raw: bool,
    built: "Mapping[str, Built]",
) -> "AbstractContextManager[Told | None]":
    """The run that folds a step's views; `built` has what became of it, by source, once there is something."""
    tables, name = batch.tables, source.name

    def look() -> DataSets:
        done = built[name].done if name in built else None
        start, end = (step.start, step.cut) if done is None else (done.start, done.cut)
        covered = None if end is None else ranges(start, end, archive.firsts(tables, name))
        at, schema = tables.events(name, release.sources[name]), events_schema(source)
        read = _table(batch, *((tables.archive(name), RECORDS_SCHEMA) if raw else (at, schema)), covered)
        # The columns are those of the events, whichever way they were read.
        of = read if not raw else _table(batch, at, schema)
        live = publications.latest(tables)
        there = live.views if live is not None and live.release == release.number else {}
        stored = {view: there.get(view, BatchView(release.views[view])).address(tables, view) for view in step.views}
        outputs = [_table(batch, stored[view], state_schema(views[view])) for view in step.views]
        outputs += [
            data_set.view(
                batch.settings.lineage.namespace,
                view,
                Made(of, lineage(views[view])),
                live.number if done is not None and live is not None else None,
            )
            for view in step.views
        ]
        return DataSets((read,), tuple(outputs))

    return reporter.run(f"recompute.{name}", "BATCH", look, release=release.number)


def _table(batch: Run, address: str, schema: pa.Schema, positions: Ranges | None = None) -> DataSet:
    handle = delta.open_table(batch.tables, address)
    return data_set.table(address, schema, None if handle is None else handle.version(), positions)


def _of(position: Position, topic: str, names: Mapping[str, str]) -> Position:
    """The part of a position that is of one topic; `names` are those of ids."""
    return Position.of({partition: offset for partition, offset in position.items() if names.get(partition[0]) == topic})
