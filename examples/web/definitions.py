"""A shop's requests: pages, users, response times and bytes."""

from datetime import datetime

from tandem import (
    Alert,
    Event,
    Sink,
    Source,
    View,
    all_time,
    approx_count_distinct,
    approx_quantiles,
    count,
    delta_table,
    kafka_topic,
    maximum,
    mean,
    minimum,
    total,
    tumbling,
)


class Request(Event):
    """One answered request."""

    request_id: str
    at: datetime
    user: str
    path: str
    status: int
    bytes: int
    ms: float


requests = Source(topic="requests", event=Request, event_time="at", identity=("request_id",))

page_traffic = View(
    source=requests,
    where="status < 500",
    keys={"page": "path"},
    window=tumbling(minutes=1),
    measures={
        "hits": count(),
        "bytes": total("bytes"),
        "visitors": approx_count_distinct('"user"'),
        "latency": approx_quantiles("ms", (0.5, 0.99)),
    },
)

section_visitors = View(
    source=requests,
    keys={"section": "split_part(path, '/', 2)"},
    window=tumbling(hours=1),
    measures={"visitors": approx_count_distinct('"user"'), "requests": count()},
)

route_latency = View(
    source=requests,
    keys={"route": "regexp_replace(path, '[0-9]+', ':id', 'g')"},
    window=tumbling(minutes=15),
    measures={"latency": approx_quantiles("ms", (0.5, 0.95, 0.99)), "slowest": maximum("ms"), "requests": count()},
)

status_counts = View(
    source=requests,
    keys={"status": "status"},
    window=tumbling(minutes=1),
    measures={"requests": count()},
)

user_bytes = View(
    source=requests,
    keys={"user": '"user"'},
    window=tumbling(days=1),
    measures={"bytes": total("bytes"), "largest": maximum("bytes"), "requests": count()},
)

totals = View(
    source=requests,
    window=all_time(),
    measures={
        "requests": count(),
        "bytes": total("bytes"),
        "mean_bytes": mean("bytes"),
        "users": approx_count_distinct('"user"'),
        "first": minimum('"at"'),
        "last": maximum('"at"'),
    },
)

status_lake = Sink(status_counts, to=delta_table("lake/status_counts"))
section_topic = Sink(section_visitors, to=kafka_topic("section-visitors"))
slow_route = Alert(route_latency, when="slowest > 1000", text="{route}: a request took {slowest:,.0f} ms")

SOURCES = (requests,)
VIEWS = (page_traffic, section_visitors, route_latency, status_counts, user_bytes, totals)
SINKS = (status_lake, section_topic)
ALERTS = (slow_route,)
