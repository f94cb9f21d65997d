"""Windows: which events of a key share an answer.

One file per family; a further window is a further frozen dataclass that satisfies `Window`, named nowhere else but in
docs/windows.md. Its `__str__` says how a definition writes it.
"""

from views.windows.calendar import Calendar, calendar
from views.windows.in_order import Delta, EveryN, LastN, Punctuation, delta, every_events, last_events, punctuation
from views.windows.in_time import AllTime, Hopping, Tumbling, all_time, hopping, tumbling
from views.windows.placement import WINDOW_COLUMNS, Placement, Step, Window
from views.windows.session import Session, session

__all__ = [
    "WINDOW_COLUMNS",
    "AllTime",
    "Calendar",
    "Delta",
    "EveryN",
    "Hopping",
    "LastN",
    "Placement",
    "Punctuation",
    "Session",
    "Step",
    "Tumbling",
    "Window",
    "all_time",
    "calendar",
    "delta",
    "every_events",
    "hopping",
    "last_events",
    "punctuation",
    "session",
    "tumbling",
]
