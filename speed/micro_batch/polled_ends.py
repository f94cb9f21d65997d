"""The time until which all received records are counted, from polls of the log's end, by the layer's clock.

Timestamps of records do not matter: the log received records beyond a polled end after that poll.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tandem.ledger.log.positions import Position

_EVERY: Final = timedelta(seconds=5)
"""Least time between two ends that are remembered while the layer is behind."""


class PolledEnd(NamedTuple):
    """The end of the log when it was polled."""

    asked: datetime
    position: Position


@dataclass
class PolledEnds:
    """The polled ends of the log that the layer has not reached yet, the earliest first."""

    _ahead: deque[PolledEnd] = field(default_factory=deque)

    def caught_up(self, end: PolledEnd, reached: Position) -> datetime | None:
        """The latest time until which everything that the log had received lies below `reached`; None without a new one.

        `end` is the newest polled end of the log.
        """
        found = None
        while self._ahead and self._ahead[0].position.at_or_below(reached):
            found = self._ahead.popleft().asked
        if end.position.at_or_below(reached):
            return end.asked
        # Also if the clock was set back.
        if not self._ahead or abs(end.asked - self._ahead[-1].asked) >= _EVERY:
            self._ahead.append(end)
        return found
