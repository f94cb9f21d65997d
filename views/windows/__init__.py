"""Windows: which events of a key share an answer.

A window is a file here, with a frozen dataclass that satisfies `Window`, a line in registry.py and a row in docs/windows.md. Its
`__str__` is the call in a definition.
"""

from views.windows.calendar import Calendar as Calendar
from views.windows.in_order import CountWindow as CountWindow
from views.windows.in_order import Delta as Delta
from views.windows.in_order import Punctuation as Punctuation
from views.windows.in_order import SlidingCountWindow as SlidingCountWindow
from views.windows.in_time import AllTime as AllTime
from views.windows.in_time import Hopping as Hopping
from views.windows.in_time import Tumbling as Tumbling
from views.windows.placement import WINDOW_COLUMNS as WINDOW_COLUMNS
from views.windows.placement import Placement as Placement
from views.windows.placement import Window as Window
from views.windows.registry import *
from views.windows.session import Session as Session
from views.windows.step import Step as Step
