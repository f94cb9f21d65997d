"""Since when the log had nothing that is not counted: by where it ended whenever the speed layer asked, in the layer's own time.

No record's timestamp enters: whatever lies beyond an end that the log once had was received after it was asked for.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from ledger.log.positions import Position

_EVERY: Final = timedelta(seconds=5)
"""Least time between two ends that are remembered while the layer is behind."""


class End(NamedTuple):
    """Where the log ended when it was asked."""

    asked: datetime
    position: Position


@dataclass
class LogEnds:
    """Ends of the log that the layer has not reached yet, the earliest first."""

    _ahead: deque[End] = field(default_factory=deque)

    def caught_up(self, end: End, reached: Position) -> datetime | None:
        """The latest known time until which all that the log had received lies below `reached`; None if none is newly known.

        `end` is where the log ended lately.
        """
        found = None
        while self._ahead and self._ahead[0].position.at_or_below(reached):
            found = self._ahead.popleft().asked
        if end.position.at_or_below(reached):
            return end.asked
        # Also where the clock was set back.
        if not self._ahead or abs(end.asked - self._ahead[-1].asked) >= _EVERY:
            self._ahead.append(end)
        return found
