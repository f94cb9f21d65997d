"""Report recomputes to OpenLineage: events into views."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tandem.batch.archive.archive_lineage import table
from tandem.batch.runtime.session import BatchRun
from tandem.infra.lineage import data_set
from tandem.infra.lineage.data_set import DataSets, DerivedColumns
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import ranges
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Release
from tandem.views.project.column_lineage import lineage
from tandem.views.source.source import RECORDS_SCHEMA, Source, events_schema
from tandem.views.view import View, state_schema

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tandem.batch.recompute.build import Built
    from tandem.batch.recompute.plan import RecomputeStep
    from tandem.infra.lineage.runs import ReportedRun, Reporter


def recomputing(
    reporter: "Reporter",
    batch: BatchRun,
    release: Release,
    source: Source,
    views: Mapping[str, View],
    *,
    step: "RecomputeStep",
    raw: bool,
    built: "Mapping[str, Built]",
) -> "AbstractContextManager[ReportedRun | None]":
    """The reported run of a step; `built` has its result by source once it is published."""
    tables, name = batch.tables, source.name

    def look() -> DataSets:
        done = built[name].done if name in built else None
        start, end = (step.start, step.cut) if done is None else (done.start, done.cut)
        covered = None if end is None else ranges(start, end, ArchiveLedger(tables, name).firsts())
        at, schema = tables.events(name, release.sources[name]), events_schema(source)
        read = table(batch, *((tables.archive(name), RECORDS_SCHEMA) if raw else (at, schema)), covered)
        # The columns are those of the events, whichever way they were read.
        of = read if not raw else table(batch, at, schema)
        live = Publications(tables).latest()
        there = live.views if live is not None and live.release == release.number else {}
        stored = {view: there.get(view, BatchView(release.views[view])).address(tables, view) for view in step.views}
        outputs = [table(batch, stored[view], state_schema(views[view])) for view in step.views]
        outputs += [
            data_set.view(
                batch.settings.lineage.namespace,
                view,
                DerivedColumns(of, lineage(views[view])),
                live.number if done is not None and live is not None else None,
            )
            for view in step.views
        ]
        return DataSets((read,), tuple(outputs))

    return reporter.run(f"recompute.{name}", "BATCH", look, release=release.number)
