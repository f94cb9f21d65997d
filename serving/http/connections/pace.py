"""The minimum pace of a transfer: a least average rate, after a time of grace."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """At least `rate` bytes a second, averaged since the beginning, of which the first `grace_s` seconds do not count."""

    rate: float
    grace_s: float

    def until(self, began: float, done: int) -> float:
        """The time at which a transfer that began then, and has moved `done` bytes, is too slow."""
        return began + self.grace_s + done / self.rate
