"""The label of each row of an answer: whether its window is open, complete, or expected to change no more.

    open      the watermark has not reached the window's end
    on_time   it has, and events that are at most `lateness` behind it may still arrive
    final     no such event can change the window any more

A label is not a promise: an event that arrives later counts all the same, and `after_final` counts it.
A window in the order of the log is open until the log completes it, then final, whatever the time. A window without an end stays
open.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays, python_values
from tandem.views.source.watermark import final_until
from tandem.views.view import View, bind
from tandem.views.windows.placement import COMPLETE, STATES, WINDOW_COLUMNS, WindowState

_OPEN, _ON_TIME, _FINAL = range(len(STATES))


def window_states(view: View, arranged: pa.Table, watermark: int | None) -> pa.Array:
    """The label of each row of arranged states, at a watermark in microseconds since 1970; None is before every event."""
    return python_values.array(STATES, pa.string()).take(arrays.from_numpy(_labels(view, arranged, watermark), pa.int64()))


def _labels(view: View, arranged: pa.Table, watermark: int | None) -> npt.NDArray[np.int64]:
    placement = bind(view).placement
    if placement.in_order:
        complete = arrays.integers(arrays.whole(arranged[COMPLETE.name].cast(pa.int64())))
        return np.where(complete == 1, _FINAL, _OPEN)
    if watermark is None:
        return np.full(arranged.num_rows, _OPEN)
    column = arrays.whole(arranged[WINDOW_COLUMNS[1]])
    ends, ended = arrays.integers(column), arrays.validity(column)
    final = final_until(view.source, watermark, placement.timing.grace)
    labels = np.where(ends <= watermark, np.where(ends <= final, _FINAL, _ON_TIME), _OPEN)
    return np.where(ended, labels, _OPEN)


def window_state(end: int | None, watermark: int | None, final: int | None) -> WindowState:
    """The label of one row whose window ends by time, or never if `end` is None; `final` is `final_until` of the watermark."""
    if end is None or watermark is None or final is None or end > watermark:
        return "open"
    return "final" if end <= final else "on_time"
