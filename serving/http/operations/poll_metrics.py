"""Metrics of the polls for new snapshots, and log lines where they begin to fail and where they succeed again."""

from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from tandem.serving.http.metrics import Metrics
from tandem.serving.read.outcome import Failed
from tandem.serving.read.snapshot import Snapshot


@dataclass
class PollMetrics:
    """The polls of one server."""

    metrics: Metrics
    log: FilteringBoundLogger
    _why: str | None = field(default=None, init=False, repr=False)

    def polled(self, found: Snapshot | Failed, seconds: float) -> None:
        """Record a poll's result and duration in seconds."""
        why = found.reason if isinstance(found, Failed) else None
        self.metrics.polled(failed=why is not None, seconds=seconds)
        if why is None and self._why is not None:
            self.log.info("the published tables can be read again")
        elif why != self._why:
            self.log.error("the server cannot answer until the published tables can be read", why=why)
        self._why = why
