"""What numbers mean: events, sources and views, and the pure functions that compute every answer.

Exported here is what a project's definitions are written with; the platform imports the modules themselves.
"""

from views.decode.formats.avro import avro
from views.decode.formats.csv import csv
from views.decode.formats.protobuf import protobuf
from views.measures import (
    CustomMeasure,
    approx_count_distinct,
    approx_quantiles,
    approx_top_k,
    bool_and,
    bool_or,
    collect_set,
    correlation,
    count,
    count_distinct,
    covariance,
    derived,
    first,
    first_k,
    histogram,
    kurtosis,
    last,
    last_k,
    max_by,
    maximum,
    mean,
    min_by,
    minimum,
    sample,
    skewness,
    stddev,
    theta_sketch,
    total,
    variance,
)
from views.source.event import Event, Scale, Unit
from views.source.record_filter import by_field, by_header
from views.source.schema_version import Version
from views.source.source import Source
from views.view import View
from views.windows import all_time, calendar, count_window, delta, hopping, punctuation, session, sliding_count_window, tumbling

__all__ = [
    "CustomMeasure",
    "Event",
    "Scale",
    "Source",
    "Unit",
    "Version",
    "View",
    "all_time",
    "approx_count_distinct",
    "approx_quantiles",
    "approx_top_k",
    "avro",
    "bool_and",
    "bool_or",
    "by_field",
    "by_header",
    "calendar",
    "collect_set",
    "correlation",
    "count",
    "count_distinct",
    "count_window",
    "covariance",
    "csv",
    "delta",
    "derived",
    "first",
    "first_k",
    "histogram",
    "hopping",
    "kurtosis",
    "last",
    "last_k",
    "max_by",
    "maximum",
    "mean",
    "min_by",
    "minimum",
    "protobuf",
    "punctuation",
    "sample",
    "session",
    "skewness",
    "sliding_count_window",
    "stddev",
    "theta_sketch",
    "total",
    "tumbling",
    "variance",
]
