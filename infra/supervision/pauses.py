"""Notices that a loop stood still, perhaps with the whole machine: then what it watches may have stood still, too."""

from dataclasses import dataclass
from typing import Final

_PAUSED_S: Final = 1.0
"""A loop that is this late was stopped."""


@dataclass
class Pauses:
    """The rounds of a loop; `resumed` is when the first one began, or the first one after a pause, by the loop's clock."""

    resumed: float = 0.0
    _last: float = float("-inf")

    def comes_round(self, now: float) -> None:
        """A round begins."""
        if now - self._last > _PAUSED_S:
            self.resumed = now
        self._last = now
