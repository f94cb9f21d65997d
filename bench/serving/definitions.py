"""The queried views: figures of each page, over all time, and of each minute."""

from datetime import datetime

from tandem import Event, Source, View, count, maximum, mean, total, tumbling


class ServingRequest(Event):
    """One request."""

    at: datetime
    page: str
    bytes: int


requests = Source(topic="requests", event=ServingRequest, event_time="at")
pages = View(
    source=requests,
    keys={"page": "page"},
    measures={"hits": count(), "bytes": total("bytes"), "largest": maximum("bytes"), "mean": mean("bytes")},
)
minutes = View(source=requests, window=tumbling(minutes=1), measures={"hits": count(), "bytes": total("bytes")})

SOURCES = (requests,)
VIEWS = (pages, minutes)
