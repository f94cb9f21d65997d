"""The kernel's late: which events arrived well after newer events of their partition.

Late is a label: a late event counts like any other, in the window of its event time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import scalar
from tandem.views.composite.dated import DatedView, pieces
from tandem.views.instant import MICROSECOND
from tandem.views.kernel.fold_sql import EVENTS, judged_sql
from tandem.views.kernel.look_up import NO_VERSIONS, Versions, with_rows
from tandem.views.source.log_order import log_order
from tandem.views.source.offset_ranges import Offsets
from tandem.views.source.source import Source
from tandem.views.source.watermark import ahead, final_until
from tandem.views.sql import engine
from tandem.views.view import View, bind
from tandem.views.windows.placement import REASON

_NONE_YET = -(2**62)
"""Before every time; its difference to any time fits int64."""


@dataclass(frozen=True)
class Late:
    """`count` events were late; `maxima` is the newest event time of each partition so far, in microseconds of UTC.

    Events that are ahead are not among the newest.
    """

    count: int
    maxima: Offsets


def late(source: Source, events: pa.Table, maxima: Offsets = MappingProxyType({})) -> Late:
    """Count the events more than `source.lateness` behind the running maximum of their partition, in offset order.

    `maxima` are those of the range before: the log in pieces, in offset order, gives the same counts as the whole log.
    """
    lateness = source.lateness // MICROSECOND
    order = log_order(events)
    times = events[source.time_column].cast(pa.int64()).to_numpy()[order]
    told = np.where(ahead(source, events)[order], _NONE_YET, times)
    partitions = events.select(["_topic_id", "_partition"]).take(pa.array(order))
    count, newest = 0, dict(maxima)
    for start, end in _runs(partitions):
        partition = (partitions["_topic_id"][start].as_py(), partitions["_partition"][start].as_py())
        running = np.maximum(np.maximum.accumulate(told[start:end]), newest.get(partition, _NONE_YET))
        count += int(np.count_nonzero(running - times[start:end] > lateness))
        if running[-1] > _NONE_YET:
            newest[partition] = int(running[-1])
    return Late(count, newest)


def _runs(partitions: pa.Table) -> Iterator[tuple[int, int]]:
    """Where each run of equal (topic id, partition) begins and ends."""
    topics = pc.dictionary_encode(partitions["_topic_id"].combine_chunks()).indices.to_numpy()
    changed = (np.diff(topics, prepend=-1) != 0) | (np.diff(partitions["_partition"].to_numpy(), prepend=-1) != 0)
    bounds = [*np.flatnonzero(changed).tolist(), len(topics)]
    return pairwise(bounds)


_ENDS = "_ends"


def after_final(view: View, events: pa.Table, watermark: int | None, *, versions: Versions = NO_VERSIONS) -> int:
    """The number of events, as the source prepares them, whose window was final at the watermark.

    `watermark` is that of the position at which the events begin, in microseconds since 1970; None if nothing was labelled.
    Only events that the view counts are counted here; `versions` are as of `partial`.

    The window of an event is the window that it makes alone: its slice of a hopping window, the session of this event only.
    No event in any other window changes a row that was final.
    """
    if isinstance(view, DatedView):
        return sum(after_final(piece.view, piece.events_from_start(events), watermark) for piece in pieces(view))
    placement = bind(view).placement
    if watermark is None or placement.timing.ends is None or not events.num_rows:
        return 0
    until = final_until(view.source, watermark)
    # A window ends after its events. Nearly always all events are newer than `until`: then there is nothing to query.
    behind = events.filter(pc.less(events[view.source.time_column].cast(pa.int64()), scalar(until, pa.int64())))
    if not behind.num_rows:
        return 0
    behind = with_rows(view, behind, versions)
    if placement.steps.fold.prepare is not None:
        behind = placement.steps.fold.prepare(behind, list(view.keys))
    # The watermark is not part of the statement, which would be planned again for each micro-batch.
    sql = f"SELECT {placement.timing.ends} AS {_ENDS} FROM {judged_sql(view)} WHERE {REASON} IS NULL"
    ends = [found[_ENDS] for _, found in engine.halved(sql, EVENTS, behind) if found is not None]
    return sum(pc.sum(pc.less_equal(column, scalar(until, pa.int64()))).as_py() or 0 for column in ends)
