"""Windows: which events of a key share an answer.

One file per family; a further window is a further frozen dataclass that satisfies `Window`, named nowhere else but in
docs/windows.md. Its `__str__` says how a definition writes it.
"""

from views.windows.calendar import Calendar, calendar
from views.windows.in_order import (
    CountWindow,
    Delta,
    Punctuation,
    SlidingCountWindow,
    count_window,
    delta,
    punctuation,
    sliding_count_window,
)
from views.windows.in_time import AllTime, Hopping, Tumbling, all_time, hopping, tumbling
from views.windows.placement import WINDOW_COLUMNS, Placement, Step, Window
from views.windows.session import Session, session

__all__ = [
    "WINDOW_COLUMNS",
    "AllTime",
    "Calendar",
    "CountWindow",
    "Delta",
    "Hopping",
    "Placement",
    "Punctuation",
    "Session",
    "SlidingCountWindow",
    "Step",
    "Tumbling",
    "Window",
    "all_time",
    "calendar",
    "count_window",
    "delta",
    "hopping",
    "punctuation",
    "session",
    "sliding_count_window",
    "tumbling",
]
