"""A view's answer said by plain means: from its definition and its events, one at a time, and nothing else.

It shares nothing with the kernel's partial, merge and present. SQL gives the value of each expression for one event, because that
is what the definition means by it. Windows are assigned, and measures computed, in plain Python over lists of whole values: no
states, no merging, no sketches, exact arithmetic. So it is slow, holds all events that it is asked about, and is for samples.
"""

from tandem.views.oracle.answers import answers, classify, grouped, left_out
from tandem.views.oracle.compare import compare
from tandem.views.oracle.duplicates import Firsts, counted, first_places, from_start, identity_columns
from tandem.views.oracle.measures import meaning

__all__ = [
    "Firsts",
    "answers",
    "classify",
    "compare",
    "counted",
    "first_places",
    "from_start",
    "grouped",
    "identity_columns",
    "left_out",
    "meaning",
]
