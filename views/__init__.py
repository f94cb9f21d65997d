"""What numbers mean: events, sources and views, and the pure functions that compute every answer.

Exported here is what a project's definitions are written with; the platform imports the modules themselves.
"""

from views.decode.avro import avro
from views.decode.csv import csv
from views.decode.protobuf import protobuf
from views.event import Event, Scale
from views.measures import (
    CustomMeasure,
    all_true,
    any_true,
    correlation,
    count,
    covariance,
    derived,
    distinct,
    distinct_exact,
    frequent,
    histogram,
    kurtosis,
    maximum,
    mean,
    minimum,
    quantiles,
    sample,
    set_of,
    skewness,
    stddev,
    theta,
    total,
    variance,
)
from views.source import Source
from views.view import View
from views.windows import all_time, tumbling

__all__ = [
    "CustomMeasure",
    "Event",
    "Scale",
    "Source",
    "View",
    "all_time",
    "all_true",
    "any_true",
    "avro",
    "correlation",
    "count",
    "covariance",
    "csv",
    "derived",
    "distinct",
    "distinct_exact",
    "frequent",
    "histogram",
    "kurtosis",
    "maximum",
    "mean",
    "minimum",
    "protobuf",
    "quantiles",
    "sample",
    "set_of",
    "skewness",
    "stddev",
    "theta",
    "total",
    "tumbling",
    "variance",
]
