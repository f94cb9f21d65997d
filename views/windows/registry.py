"""The windows that definitions can name: a line each. `views` and `tandem` export what this module imports."""

from views.windows.calendar import calendar as calendar
from views.windows.in_order import count_window as count_window
from views.windows.in_order import delta as delta
from views.windows.in_order import punctuation as punctuation
from views.windows.in_order import sliding_count_window as sliding_count_window
from views.windows.in_time import all_time as all_time
from views.windows.in_time import hopping as hopping
from views.windows.in_time import tumbling as tumbling
from views.windows.session import session as session
