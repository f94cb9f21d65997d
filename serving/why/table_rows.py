"""The events of a log that count, as views read them; and the versions of tables that they make at a position."""

from collections.abc import Mapping

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.serving.why.part_log import OF_A_ROW, AskedRow, LogEvents, PartLog, WorkBounds
from tandem.serving.why.row_groups import ALL_TIMES
from tandem.serving.why.topic_tail import LogTail
from tandem.views.composite.table import looked_up
from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Prepared
from tandem.views.kernel.look_up import NO_VERSIONS, Versions
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.view import View


def rows_that_count(log: PartLog, asked: AskedRow) -> Prepared:
    """The events that count, as views read them. Raises TooManyEvents, ReadFailed, Unreadable."""
    events = LogEvents(log, asked)
    candidates = events.candidates()
    return kernel.prepare(log.source, events.choose(candidates, events.copies(candidates))[0], events.generations)


def versions_at(tables: Tables, tail: LogTail, part: View, ends: Mapping[str, Position], most: WorkBounds = OF_A_ROW) -> Versions:
    """What look-ups of a part find when the tables are known up to these positions, by source. Raises as `rows_that_count`."""
    read: dict[str, pa.Table] = {}
    for name, table in looked_up(part).items():
        end = ends[table.source.name]
        log = PartLog(tables, table, end, end, NO_VERSIONS, NO_VERSIONS, tail)
        prepared = rows_that_count(log, AskedRow(table, pa.table({}), ALL_TIMES, most))
        states = kernel.partial(table, prepared.events, EMPTY, prepared.failed).states
        read[name] = kernel.versions(table, kernel.merge_states(table, [states]))
    return read
