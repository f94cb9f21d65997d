"""Which rows of a view that looks up in tables may change with the next recompute, because versions came after it had looked up.

A version changes what events find from its own time on, until the next version of its key. What has looked up is the batch view,
below the cut, and each commit; both know up to where they knew the table, and the newest time of their events.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.counts import NOTHING
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.publications import Publication
from tandem.ledger.table_versions import TableVersions, table_versions
from tandem.serving.read.provenance import Layer, TableProvenance
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.views.arrow import arrays
from tandem.views.composite.rollup import root
from tandem.views.composite.table import Table, looked_up, lookup_kinds
from tandem.views.kernel.kernel import touched
from tandem.views.lookup.lookup import How
from tandem.views.source.source import Source
from tandem.views.source.watermark import Maxima
from tandem.views.view import View, bind
from tandem.views.windows.placement import WINDOW_COLUMNS

Times = tuple[tuple[int, int], ...]
"""Disjoint half-open ranges of event times in microseconds since 1970, in order."""

_FIRST, _LAST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class LateTables:
    """The tables in which a view looks up, by the name of the source, at a snapshot.

    `times` are the event times of the events that may find another version than they have found.
    """

    tables: Mapping[str, TableProvenance] = field(default_factory=dict, hash=False)
    times: Times = ()

    def overlapping(self, rows: pa.Table) -> arrays.Mask:
        """Which rows have a window that overlaps these times; rows without bounds overlap any."""
        late = np.zeros(rows.num_rows, dtype=bool)
        if not self.times:
            return late
        starts, ends = (rows[name].cast(pa.int64()) for name in WINDOW_COLUMNS)
        low = arrays.integers(arrays.whole(starts.fill_null(_FIRST)))
        high = arrays.integers(arrays.whole(ends.fill_null(_LAST)))
        for start, end in self.times:
            late |= (low < end) & (high > start)
        return late


NOTHING_LATE = LateTables()


class _LookUps(NamedTuple):
    """States of a view: up to where they knew a table, and the newest time of their events; None if it is unknown."""

    end: Position
    until: int | None


@dataclass
class TableReader:
    """Reads the versions of the tables of one release, and continues what it has read."""

    tables: Tables
    _known: dict[tuple[int, str], TableVersions] = field(default_factory=dict, init=False, repr=False)

    def late(self, publication: Publication, tails: Mapping[str, RealtimeTail], view: View, layer: Layer) -> LateTables:
        """What is late for a view of the publication's release, in a layer. Raises Unreadable."""
        of, provenance, times = root(view), dict[str, TableProvenance](), list[tuple[int, int]]()
        kinds = lookup_kinds(of)
        for name, of_table in looked_up(of).items():
            source = of_table.source.name
            tail = tails[source]
            there = self._versions(publication, of_table, name, tail)
            generations = ArchiveLedger(self.tables, source).generations()
            look_ups = _look_ups(publication, tails[of.source.name], of.source, source, layer)
            corrections, late = _late(there, generations, look_ups, how=kinds[name])
            before = provenance[source].corrections if source in provenance else 0
            provenance[source] = TableProvenance(tail.committed, corrections + before)
            times += late
        return LateTables(provenance, _union(_of_windows(of, times)))

    def versions(
        self, publication: Publication, tails: Mapping[str, RealtimeTail], views: Mapping[str, View], *, layer: Layer
    ) -> dict[str, pa.Table]:
        """What look-ups in these views of versions find, by name: in the batch views alone, or at the tails' ends.

        Raises Unreadable.
        """
        if layer != "batch":
            return {
                name: self._versions(publication, view, name, tails[view.source.name]).versions for name, view in views.items()
            }
        return {
            name: table_versions(self.tables, view, publication.views[name], tails[view.source.name].cut, ()).versions
            for name, view in views.items()
        }

    def _versions(self, publication: Publication, view: View, name: str, tail: RealtimeTail) -> TableVersions:
        place, batch = (publication.release, name), publication.views[name]
        read = table_versions(self.tables, view, batch, tail.cut, tail.commits, earlier=self._known.get(place))
        self._known = {each: there for each, there in self._known.items() if each[0] == publication.release} | {place: read}
        return read


def _look_ups(publication: Publication, tail: RealtimeTail, source: Source, table: str, layer: Layer) -> Iterator[_LookUps]:
    """What of a source's states has looked up in a table's source."""
    counts = publication.counts.get(source.name, NOTHING)
    if counts.events and layer != "speed":
        yield _LookUps(publication.cut(table), _newest(source, publication.maxima.get(source.name, {}), counts.ahead))
    for commit in tail.every if layer != "batch" else ():
        if commit.counts.events:
            ends = commit.looked_up.get(table)
            yield _LookUps(LOG_START if ends is None else ends.least, _newest(source, commit.maxima, commit.counts.ahead))


def _newest(source: Source, maxima: Maxima, ahead: int) -> int | None:
    """The newest event time; None if events that are ahead may be newer, or `prepare` may give rows a newer time."""
    if ahead or not maxima or source.prepare is not None:
        return None
    return max(times.event_time for times in maxima.values())


def _late(
    there: TableVersions, generations: Sequence[str], look_ups: Iterator[_LookUps], *, how: How
) -> tuple[int, list[tuple[int, int]]]:
    """How many versions came too late for some states, and the times of events that they touch."""
    until: dict[Position, int | None] = {}
    for end, newest in look_ups:
        if not there.end.at_or_below(end):
            before = until.get(end, newest)
            until[end] = None if newest is None or before is None else max(newest, before)
    if not until:
        return 0, []
    every, times, most = there.versions, list[tuple[int, int]](), 0
    for end, newest in until.items():
        changed = there.beyond(end, generations)
        some = touched(there.base.view, every, changed, newest, how=how)
        if some:
            times += some
            most = max(most, changed.num_rows)
    return most, times


def _of_windows(view: View, times: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The times that the windows of rows overlap which may change with what events of these times find.

    If windows depend on which events there are, and a table on which of them count, one event more changes windows after it.
    """
    bound = bind(view)
    deciding = any(isinstance(view.lookup[name].table, Table) for name in bound.lookups_of_rows)
    if times and deciding and bound.placement.timing.slice_at is None:
        return [(_FIRST, _LAST)]
    # The end of a window in the order of the log is its last event.
    return [(max(start - 1, _FIRST), end) for start, end in times] if bound.placement.in_order else times


def _union(times: Sequence[tuple[int, int]]) -> Times:
    union: list[tuple[int, int]] = []
    for start, end in sorted(times):
        if union and start <= union[-1][1]:
            union[-1] = union[-1][0], max(end, union[-1][1])
        else:
            union.append((start, end))
    return tuple(union)
