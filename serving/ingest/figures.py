"""Metrics of the gateway for Prometheus: what it wrote and what it refused."""

from collections.abc import Sequence
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tandem.infra.kafka import Appended, Outcome, Record

Refusal = Literal["undecodable", "too_large", "no_room", "no_broker"]
"""Why nothing of a request was written."""

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class IngestMetrics:
    """The gateway's metrics, in a registry; no label is a source's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._records = Counter(
            "tandem_ingest_records",
            "Records sent to the log, by outcome: written, not_written, or unknown.",
            ["outcome"],
            registry=registry,
        )
        self._bytes = Counter(
            "tandem_ingest_bytes", "Bytes of the values of these records, by outcome.", ["outcome"], registry=registry
        )
        self._refused = Counter(
            "tandem_ingest_refused", "Rejected requests, of which nothing was written, by reason.", ["reason"], registry=registry
        )
        self._seconds = Histogram(
            "tandem_ingest_append_seconds",
            "Seconds until all records of a request were acknowledged or given up.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._under_way = Gauge(
            "tandem_ingest_under_way_bytes", "Bytes of received requests that are not acknowledged yet.", registry=registry
        )

    def appended(self, records: Sequence[Record], outcomes: Sequence[Outcome], *, seconds: float) -> None:
        """Count a request's records by outcome."""
        self._seconds.observe(seconds)
        for record, outcome in zip(records, outcomes, strict=True):
            label = "written" if isinstance(outcome, Appended) else "not_written" if outcome.sure else "unknown"
            self._records.labels(label).inc()
            self._bytes.labels(label).inc(len(record.value or b""))

    def refused(self, reason: Refusal) -> None:
        """Count a refused request."""
        self._refused.labels(reason).inc()

    def under_way(self, size: int) -> None:
        """Set the number of unacknowledged bytes."""
        self._under_way.set(size)
