"""Measures: what a view says about the events of a key and window.

One file per family; a further measure is a further frozen dataclass that satisfies `Measure`, named nowhere else. Its `facts` and
`__str__` say what it costs and how a definition writes it.
"""

from views.measures.approx_count_distinct import approx_count_distinct
from views.measures.approx_quantiles import approx_quantiles
from views.measures.approx_top_k import approx_top_k
from views.measures.collect_set import collect_set
from views.measures.comoments import correlation, covariance
from views.measures.conditions import bool_and, bool_or
from views.measures.count import count
from views.measures.count_distinct import count_distinct
from views.measures.custom import CustomMeasure
from views.measures.derived import derived
from views.measures.extremes import maximum, minimum
from views.measures.first_last import first, first_k, last, last_k, max_by, min_by
from views.measures.histogram import histogram
from views.measures.mean import mean
from views.measures.measure import Aggregate, Approximation, Measure, State
from views.measures.moments import kurtosis, skewness, stddev, variance
from views.measures.sample import sample
from views.measures.theta_sketch import theta_sketch
from views.measures.total import total

__all__ = [
    "Aggregate",
    "Approximation",
    "CustomMeasure",
    "Measure",
    "State",
    "approx_count_distinct",
    "approx_quantiles",
    "approx_top_k",
    "bool_and",
    "bool_or",
    "collect_set",
    "correlation",
    "count",
    "count_distinct",
    "covariance",
    "derived",
    "first",
    "first_k",
    "histogram",
    "kurtosis",
    "last",
    "last_k",
    "max_by",
    "maximum",
    "mean",
    "min_by",
    "minimum",
    "sample",
    "skewness",
    "stddev",
    "theta_sketch",
    "total",
    "variance",
]
