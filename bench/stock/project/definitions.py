"""The benchmark's views: those of examples/web without what the compared systems would not do alike.

No identity, since the Spark jobs do not look for duplicates, and no sketches, since each engine has its own.
"""

from datetime import datetime

from tandem import Event, Source, View, all_time, count, maximum, minimum, total, tumbling


class Request(Event):
    request_id: str
    at: datetime
    user: str
    path: str
    status: int
    bytes: int
    ms: float


requests = Source(topic="bench", event=Request, event_time="at")

page_traffic = View(
    source=requests,
    where="status < 500",
    keys={"page": "path"},
    window=tumbling(minutes=1),
    measures={"hits": count(), "bytes": total("bytes")},
)

section_visitors = View(
    source=requests,
    keys={"section": "split_part(path, '/', 2)"},
    window=tumbling(hours=1),
    measures={"requests": count()},
)

route_latency = View(
    source=requests,
    keys={"route": "regexp_replace(path, '[0-9]+', ':id', 'g')"},
    window=tumbling(minutes=15),
    measures={"slowest": maximum("ms"), "requests": count()},
)

status_counts = View(source=requests, keys={"status": "status"}, window=tumbling(minutes=1), measures={"requests": count()})

user_bytes = View(
    source=requests,
    keys={"user": '"user"'},
    window=tumbling(days=1),
    measures={"bytes": total("bytes"), "largest": maximum("bytes"), "requests": count()},
)

totals = View(
    source=requests,
    window=all_time(),
    measures={"requests": count(), "bytes": total("bytes"), "first": minimum('"at"'), "last": maximum('"at"')},
)

SOURCES = (requests,)
VIEWS = (page_traffic, section_visitors, route_latency, status_counts, user_bytes, totals)
