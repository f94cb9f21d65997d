"""The newest times of events, from which watermarks are computed."""

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.source.ahead import not_ahead
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import APPEND_TIME, Source
from tandem.views.source.watermark import Newest, maxima_from_json


def maxima_of(source: Source, events: pa.Table) -> dict[Partition, Newest]:
    """The maxima of events, in any order. It reads the columns of position, append time and event time."""
    events = not_ahead(source, events)
    times = pa.table(
        {
            "topic": events["_topic_id"],
            "number": events["_partition"],
            "event": events[source.time_column].cast(pa.int64()),
            "append": events[APPEND_TIME].cast(pa.int64()),
        }
    )
    found = times.group_by(["topic", "number"], use_threads=False).aggregate([("event", "max"), ("append", "max")])
    return maxima_from_json(zip(*found.to_pydict().values(), strict=True))


def newest_append(events: pa.Table) -> int | None:
    """The newest append time of events, ahead or not, in microseconds since 1970; None without events."""
    newest: int | None = pc.max(events[APPEND_TIME].cast(pa.int64())).as_py()
    return newest
