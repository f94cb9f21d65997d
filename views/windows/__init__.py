"""Windows: which events of a key share an answer.

A window is a file here, with a frozen dataclass that satisfies `Window`, a line in registry.py and a row in docs/windows.md. Its
`__str__` is the call in a definition.
"""

from tandem.views.windows.calendar import Calendar as Calendar
from tandem.views.windows.in_order import CountWindow as CountWindow
from tandem.views.windows.in_order import Delta as Delta
from tandem.views.windows.in_order import Punctuation as Punctuation
from tandem.views.windows.in_order import SlidingCountWindow as SlidingCountWindow
from tandem.views.windows.in_time import AllTime as AllTime
from tandem.views.windows.in_time import Current as Current
from tandem.views.windows.in_time import Hopping as Hopping
from tandem.views.windows.in_time import Tumbling as Tumbling
from tandem.views.windows.placement import WINDOW_COLUMNS as WINDOW_COLUMNS
from tandem.views.windows.placement import Placement as Placement
from tandem.views.windows.placement import Step as Step
from tandem.views.windows.placement import Window as Window
from tandem.views.windows.registry import *
from tandem.views.windows.session import Session as Session
