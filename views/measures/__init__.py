"""Measures: what a view computes of the events of a key and window.

A measure is a file here, with a frozen dataclass that satisfies `Measure`, and a line in measure_registry.py. Its `facts`
state what it costs, its `__str__` is the call in a definition.
"""

from tandem.views.measures.measure import Aggregate as Aggregate
from tandem.views.measures.measure import Approximation as Approximation
from tandem.views.measures.measure import Measure as Measure
from tandem.views.measures.measure import State as State
from tandem.views.measures.measure_registry import *
