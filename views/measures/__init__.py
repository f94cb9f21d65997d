"""Measures: what a view says about the events of a key and window.

A measure is a file here, with a frozen dataclass that satisfies `Measure`, and a line in registry.py. Its `facts` and `__str__`
say what it costs and how a definition writes it.
"""

from views.measures.measure import Aggregate as Aggregate
from views.measures.measure import Approximation as Approximation
from views.measures.measure import Measure as Measure
from views.measures.measure import State as State
from views.measures.registry import *
