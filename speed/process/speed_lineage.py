"""Report a followed source to OpenLineage: its topics into the realtime table and the views, up to the counted position."""

from typing import TYPE_CHECKING

from tandem.infra.kafka import broker
from tandem.infra.lineage import data_set
from tandem.infra.lineage.data_set import DataSets, Made
from tandem.ledger.delta import delta_tables
from tandem.ledger.log import archive_runs
from tandem.ledger.log.positions import ranges
from tandem.ledger.realtime.commit_files import SCHEMA
from tandem.views.project.column_lineage import lineage
from tandem.views.source.event import event_schema
from tandem.views.source.offset_ranges import Ranges

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tandem.infra.lineage.runs import Told
    from tandem.speed.source.follow import Follow


def following(follow: "Follow") -> "AbstractContextManager[Told | None]":
    """The reported run of a source under one release, with the positions that this process has folded."""
    around, source, tail = follow.around, follow.source, follow.tail
    tables, start = around.tables, tail.writer.end

    def look() -> DataSets:
        names = archive_runs.topic_names(tables, source.name)
        covered = ranges(start, tail.writer.end, tail.state.firsts).intervals
        address, schema = broker.address(around.settings).bootstrap, event_schema(source.event)
        read = tuple(
            data_set.topic(address, name, schema, Ranges(tuple(one for one in covered if names.get(one[0][0]) == name)))
            for name in source.topics
        )
        at = tables.realtime(follow.release.number, source.name)
        handle = delta_tables.open_table(tables, at)
        table = data_set.table(at, SCHEMA, None if handle is None else handle.version())
        namespace = around.settings.lineage.namespace
        views = tuple(data_set.view(namespace, view.name, Made(read[0], lineage(view))) for view in tail.views.values())
        return DataSets(read, (table, *views))

    return around.reporter.run(f"speed.{source.name}", "STREAMING", look, release=follow.release.number)
