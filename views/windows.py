"""Windows: the stretch of event time that one answer of a view covers."""

from dataclasses import dataclass
from datetime import timedelta

from views.errors import DefinitionError

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Tumbling:
    """Windows `[n * size, (n + 1) * size)` for every whole n, counted from 1970-01-01T00:00:00Z, before it too.

    Every event is in exactly one. A size of a week therefore starts on Thursdays, as 1970 did.
    """

    size: timedelta

    def __post_init__(self) -> None:
        if not timedelta(seconds=1) <= self.size <= timedelta(days=366_000):
            raise DefinitionError(
                f"a tumbling window of {self.size} is not possible: it is at least 1 second and at most 1000 years"
            )

    @property
    def size_us(self) -> int:
        """The size in microseconds."""
        return self.size // _MICROSECOND


@dataclass(frozen=True)
class AllTime:
    """One window without bounds; its `window_start` and `window_end` are null."""


Window = Tumbling | AllTime


def tumbling(*, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Tumbling:
    """Back-to-back windows of equal size aligned to 1970-01-01T00:00:00Z: `tumbling(minutes=1)`, `tumbling(days=7)`."""
    return Tumbling(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))


def all_time() -> AllTime:
    """One answer per key over everything that the log ever held."""
    return AllTime()
