"""A web server's access log: requests, clients and responses."""

from datetime import datetime

from tandem import Event, Source, View, all_time, apache_combined, approx_count_distinct, count, maximum, minimum, total, tumbling


class Access(Event):
    """One line; the fields that the log leaves at `-`, and the parts of a request that is not HTTP, are null."""

    host: str
    time: datetime
    method: str | None
    path: str | None
    status: int
    bytes: int
    referer: str | None
    agent: str | None


# No identity: a server may log two equal lines in one second, and each of them is a request.
access = Source(topic="access", event=Access, event_time="time", decoder=apache_combined())

path_traffic = View(
    source=access,
    keys={"path": "path"},
    window=tumbling(hours=1),
    measures={"hits": count(), "bytes": total("bytes")},
)

status_counts = View(
    source=access,
    keys={"method": "method", "status": "status"},
    window=tumbling(hours=1),
    measures={"hits": count()},
)

broken_links = View(
    source=access,
    where="status = 404 AND referer IS NOT NULL",
    keys={"path": "split_part(path, '?', 1)", "referer": "referer"},
    window=tumbling(days=1),
    measures={"hits": count(), "clients": approx_count_distinct("host")},
)

clients = View(
    source=access,
    keys={"host": "host"},
    window=tumbling(days=1),
    measures={
        "hits": count(),
        "bytes": total("bytes"),
        "largest": maximum("bytes"),
        "first": minimum("time"),
        "last": maximum("time"),
    },
)

totals = View(
    source=access,
    window=all_time(),
    measures={
        "hits": count(),
        "bytes": total("bytes"),
        "clients": approx_count_distinct("host"),
        "agents": approx_count_distinct("agent"),
    },
)

SOURCES = (access,)
VIEWS = (path_traffic, status_counts, broken_links, clients, totals)
