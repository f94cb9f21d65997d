"""The kernel's ahead: events whose time is well after their own record's timestamp; and those without a usable timestamp.

The label depends on the event's record alone, so both layers agree on it. An event that is ahead counts like any other, in the
window of its event time, but does not advance the watermark: one wrong clock would change the labels of all windows.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.instant import GREGORIAN, LAST, MICROSECOND
from tandem.views.source.source import APPEND_TIME, Source

_MOST: Final = 2**63 - 1


def ahead(source: Source, events: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows have an event time more than `source.clock_skew` after their record's timestamp.

    Reads the columns of the event time and of the append time.
    """
    bound = min(source.clock_skew // MICROSECOND, _MOST)
    times, stamps = (events[name].cast(pa.int64()).to_numpy() for name in (source.time_column, APPEND_TIME))
    mask: npt.NDArray[np.bool_] = times - stamps > bound
    return mask


def off_calendar(events: pa.Table) -> int:
    """How many events have a record's timestamp at the bounds of the calendar, to which `decode` moves what lies outside."""
    stamps = events[APPEND_TIME].cast(pa.int64()).to_numpy()
    return int(((stamps <= GREGORIAN) | (stamps >= LAST)).sum())


def not_ahead(source: Source, events: pa.Table) -> pa.Table:
    """The events without those that are ahead."""
    wrong = ahead(source, events)
    return events.filter(pa.array(~wrong)) if wrong.any() else events
