"""The windows that definitions can name: a line each. `views` and `tandem` export what this module imports."""

from tandem.views.windows.calendar import calendar as calendar
from tandem.views.windows.in_order import count_window as count_window
from tandem.views.windows.in_order import delta as delta
from tandem.views.windows.in_order import punctuation as punctuation
from tandem.views.windows.in_order import sliding_count_window as sliding_count_window
from tandem.views.windows.in_time import all_time as all_time
from tandem.views.windows.in_time import hopping as hopping
from tandem.views.windows.in_time import tumbling as tumbling
from tandem.views.windows.session import session as session
