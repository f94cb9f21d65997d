"""Measures: what a view says about the events of a key and window.

One file per family; a further measure is a further frozen dataclass that satisfies `Measure`, named nowhere else. Its `facts` and
`__str__` say what it costs and how a definition writes it.
"""

from views.measures.comoments import correlation, covariance
from views.measures.conditions import all_true, any_true
from views.measures.count import count
from views.measures.custom import CustomMeasure
from views.measures.derived import derived
from views.measures.distinct import distinct
from views.measures.exact_set import distinct_exact, set_of
from views.measures.extremes import maximum, minimum
from views.measures.first_last import bottom_k, first, first_k, last, last_k, top_k
from views.measures.frequent import frequent
from views.measures.histogram import histogram
from views.measures.mean import mean
from views.measures.measure import Aggregate, Approximation, Measure, State
from views.measures.moments import kurtosis, skewness, stddev, variance
from views.measures.quantiles import quantiles
from views.measures.sample import sample
from views.measures.theta import theta
from views.measures.total import total

__all__ = [
    "Aggregate",
    "Approximation",
    "CustomMeasure",
    "Measure",
    "State",
    "all_true",
    "any_true",
    "bottom_k",
    "correlation",
    "count",
    "covariance",
    "derived",
    "distinct",
    "distinct_exact",
    "first",
    "first_k",
    "frequent",
    "histogram",
    "kurtosis",
    "last",
    "last_k",
    "maximum",
    "mean",
    "minimum",
    "quantiles",
    "sample",
    "set_of",
    "skewness",
    "stddev",
    "theta",
    "top_k",
    "total",
    "variance",
]
