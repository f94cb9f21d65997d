"""Which windows of a view have left, where it keeps them for some time."""

from datetime import datetime

from tandem.views.instant import MICROSECOND, nearest_time
from tandem.views.source.watermark import Maxima
from tandem.views.view import View, bind


def first_window(view: View, maxima: Maxima) -> datetime | None:
    """The start of the first window that stays below a position with these maxima; None if all stay."""
    slice_at = bind(view).placement.timing.slice_at
    if view.keep is None or slice_at is None or not maxima:
        return None
    horizon = max(times.event_time for times in maxima.values()) - view.keep // MICROSECOND
    return slice_at(nearest_time(horizon))[0]
