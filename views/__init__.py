"""What numbers mean: events, sources and views, and the pure functions that compute every answer.

Exported here is what a project's definitions are written with; the platform imports the modules themselves.
"""

from views.decode.formats.avro import avro
from views.decode.formats.csv import csv
from views.decode.formats.protobuf import protobuf
from views.measures import (
    CustomMeasure,
    all_true,
    any_true,
    bottom_k,
    correlation,
    count,
    covariance,
    derived,
    distinct,
    distinct_exact,
    first,
    first_k,
    frequent,
    histogram,
    kurtosis,
    last,
    last_k,
    maximum,
    mean,
    minimum,
    quantiles,
    sample,
    set_of,
    skewness,
    stddev,
    theta,
    top_k,
    total,
    variance,
)
from views.source.event import Event, Scale, Unit
from views.source.record_filter import by_field, by_header
from views.source.schema_version import Version
from views.source.source import Source
from views.view import View
from views.windows import all_time, calendar, delta, every_events, hopping, last_events, punctuation, session, tumbling

__all__ = [
    "CustomMeasure",
    "Event",
    "Scale",
    "Source",
    "Unit",
    "Version",
    "View",
    "all_time",
    "all_true",
    "any_true",
    "avro",
    "bottom_k",
    "by_field",
    "by_header",
    "calendar",
    "correlation",
    "count",
    "covariance",
    "csv",
    "delta",
    "derived",
    "distinct",
    "distinct_exact",
    "every_events",
    "first",
    "first_k",
    "frequent",
    "histogram",
    "hopping",
    "kurtosis",
    "last",
    "last_events",
    "last_k",
    "maximum",
    "mean",
    "minimum",
    "protobuf",
    "punctuation",
    "quantiles",
    "sample",
    "session",
    "set_of",
    "skewness",
    "stddev",
    "theta",
    "top_k",
    "total",
    "tumbling",
    "variance",
]
