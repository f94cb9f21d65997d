"""The kernel's after_final: the number of events that arrived in windows that answers had labelled final."""

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import scalar
from tandem.views.kernel.fold_sql import EVENTS, judged_sql
from tandem.views.source.watermark import final_until
from tandem.views.sql import engine
from tandem.views.view import View, bind
from tandem.views.windows.placement import REASON

_ENDS = "_ends"


def after_final(view: View, events: pa.Table, watermark: int | None) -> int:
    """The number of events, as the source prepares them, whose window was final at the watermark.

    `watermark` is that of the position at which the events begin, in microseconds since 1970; None if nothing was labelled.
    Only events that the view counts are counted here.

    The window of an event is the window that it makes alone: its slice of a hopping window, the session of this event only.
    No event in any other window changes a row that was final.
    """
    placement = bind(view).placement
    if watermark is None or placement.timing.ends is None or not events.num_rows:
        return 0
    until = final_until(view.source, watermark)
    # A window ends after its events. Nearly always all events are newer than `until`: then there is nothing to query.
    behind = events.filter(pc.less(events[view.source.event_time].cast(pa.int64()), scalar(until, pa.int64())))
    if not behind.num_rows:
        return 0
    if placement.steps.fold.prepare is not None:
        behind = placement.steps.fold.prepare(behind, list(view.keys))
    # The watermark is not part of the statement, which would be planned again for each micro-batch.
    sql = f"SELECT {placement.timing.ends} AS {_ENDS} FROM {judged_sql(view)} WHERE {REASON} IS NULL"
    ends = [found[_ENDS] for _, found in engine.halved(sql, EVENTS, behind) if found is not None]
    return sum(pc.sum(pc.less_equal(column, scalar(until, pa.int64()))).as_py() or 0 for column in ends)
