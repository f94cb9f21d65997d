"""Freshness: the time until answers count the records that are in the log."""

from collections import deque
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from tandem.ledger.log.positions import LOG_START, Position


@dataclass
class Freshness:
    """Records ends of the log, and after how many seconds each of them was counted.

    The error is at most twice the time between two polls.
    """

    seconds: list[float] = field(default_factory=list)
    _waiting: deque[tuple[float, Position]] = field(default_factory=deque)
    _last: Position = LOG_START

    def look(self, now: float, log_end: Position, counted: Position) -> None:
        """Record the current end of the log, and the position of answers."""
        if log_end != self._last:
            self._waiting.append((now, log_end))
            self._last = log_end
        while self._waiting and self._waiting[0][1].at_or_below(counted):
            self.seconds.append(now - self._waiting.popleft()[0])

    def to_json(self) -> dict[str, Any]:
        """The median and the 99th percentile, None without two samples."""
        cuts = quantiles(self.seconds, n=100, method="inclusive") if len(self.seconds) > 1 else []
        found = {"p50": round(cuts[49], 3), "p99": round(cuts[98], 3)} if cuts else {"p50": None, "p99": None}
        return {**found, "samples": len(self.seconds)}
