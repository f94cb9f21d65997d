"""The server's own metrics for Prometheus."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE

from tandem.ledger.hot.messages import HotStatus
from tandem.serving.ingest.gateway import IngestMetrics
from tandem.serving.status.part_state import STATES, PartState

__all__ = ["CONTENT_TYPE", "Metrics"]

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass
class Metrics:
    """Metrics of one server, whose requests are of one thread.

    A route is labelled by its template, so no name of a view and no value of a key is a label.
    """

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self._seconds = Histogram(
            "tandem_http_request_seconds",
            "Seconds until a request's last byte was sent.",
            ["method", "route", "status"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._running = 0
        running = Gauge("tandem_http_requests_running", "Requests in progress.", registry=self.registry)
        running.set_function(lambda: self._running)
        self._bytes = Counter("tandem_http_response_bytes", "Bytes of responses.", ["route"], registry=self.registry)
        self._looks = Histogram(
            "tandem_http_refresh_seconds",
            "Duration of polls for new commits and publications.",
            ["outcome"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._red = Gauge(
            "tandem_part_red", "1 if a part is dead, stuck or given up, 0 if not.", ["part"], registry=self.registry
        )
        self._states = Gauge("tandem_part_state", "1 for the state that a part is in.", ["part", "state"], registry=self.registry)
        self._ages = Gauge(
            "tandem_part_age_seconds",
            "Seconds since a part last counted or polled events.",
            ["part"],
            registry=self.registry,
        )

        self._connections = Gauge("tandem_http_connections", "Open connections.", registry=self.registry)
        self._ended = Counter(
            "tandem_http_connections_ended",
            "Connections that the server closed, by the exceeded limit.",
            ["why"],
            registry=self.registry,
        )
        self._hot_aside = Gauge("tandem_hot_aside", "Sources whose hot tail does not follow the log now.", registry=self.registry)
        self._hot_views_aside = Gauge(
            "tandem_hot_views_aside", "Views that stand aside from hot tails because they are too heavy.", registry=self.registry
        )
        self._hot_ahead = Gauge(
            "tandem_hot_ahead_offsets", "Offsets that hot tails count beyond the commits.", registry=self.registry
        )
        self._hot_bytes = Gauge("tandem_hot_bytes", "Bytes of records and states of hot tails.", registry=self.registry)
        self._hot_compared = Counter(
            "tandem_hot_compared_views",
            "Comparisons of a view with the commits that took the place of hot commits.",
            registry=self.registry,
        )
        self._hot_mismatched = Counter(
            "tandem_hot_mismatched_rows", "Rows that differed in these comparisons; it must be 0.", registry=self.registry
        )
        self._hot_counted = 0, 0
        self.ingest = IngestMetrics(self.registry)
        self._ended_requests: dict[tuple[str, str, int], tuple[Histogram, Counter]] = {}

    def began(self) -> None:
        """A request began."""
        self._running += 1

    def ended(self, *, method: str, route: str, status: int, seconds: float, size: int) -> None:
        """Count an answered request."""
        self._running -= 1
        if (known := self._ended_requests.get((method, route, status))) is None:
            known = self._seconds.labels(method, route, str(status)), self._bytes.labels(route)
            self._ended_requests[method, route, status] = known
        of_seconds, of_bytes = known
        of_seconds.observe(seconds)
        of_bytes.inc(size)

    def connections(self, number: int) -> None:
        """Set the number of open connections."""
        self._connections.set(number)

    def ended_connection(self, why: str) -> None:
        """Count a connection that the server ended."""
        self._ended.labels(why).inc()

    def polled(self, *, failed: bool, seconds: float) -> None:
        """Count a poll for new commits and publications."""
        self._looks.labels("failed" if failed else "read").observe(seconds)

    def parts(self, states: Iterable[PartState]) -> None:
        """Set the states of the parts."""
        for gauge in (self._red, self._states, self._ages):
            gauge.clear()
        for one in states:
            self._red.labels(one.part).set(one.red)
            for state in STATES:
                self._states.labels(one.part, state).set(state == one.state)
            if one.age is not None:
                self._ages.labels(one.part).set(one.age)

    def hot(self, statuses: Iterable[HotStatus], *, ahead: int, compared: int, mismatched: int) -> None:
        """Set how the hot tails stand; `compared` and `mismatched` are counts since the server's start, and never shrink."""
        every = [*statuses]
        self._hot_aside.set(sum(status.aside is not None for status in every))
        self._hot_views_aside.set(sum(len(status.views_aside) for status in every))
        self._hot_ahead.set(ahead)
        self._hot_bytes.set(sum(status.nbytes for status in every))
        self._hot_compared.inc(compared - self._hot_counted[0])
        self._hot_mismatched.inc(mismatched - self._hot_counted[1])
        self._hot_counted = compared, mismatched

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
