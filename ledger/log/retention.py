"""How long records that are not archived are safe from a topic's retention. Pure functions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from views.kernel.rows import utc_text

_DELETE = "delete"
# What Kafka adds to a record that is a batch of its own: more than it ever adds, so that a partition is full no sooner.
_OVERHEAD_BYTES = 70
# A thousand years; who means for ever writes -1, or the largest number that there is.
_EVER_MS = 1000 * 365 * 86_400_000


@dataclass(frozen=True)
class Retention:
    """What a topic keeps: for how long, and how many bytes of a partition; None of either means unlimited."""

    time: timedelta | None = None
    bytes: int | None = None

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> Self:
        """What a topic's configuration says. A topic that is only compacted keeps the newest record of each key for ever."""
        if _DELETE not in configuration["cleanup.policy"].split(","):
            return cls()
        milliseconds, size = int(configuration["retention.ms"]), int(configuration["retention.bytes"])
        limited = 0 <= milliseconds < _EVER_MS
        return cls(timedelta(milliseconds=milliseconds) if limited else None, size if size >= 0 else None)


@dataclass(frozen=True)
class Waiting:
    """What of a partition is not archived: `offsets`, its oldest record's timestamp, about how many bytes its records have.

    The timestamp is its producer's, and the broker's retention goes by it, wrong or not.
    """

    retention: Retention
    offsets: int
    oldest: datetime
    mean_bytes: float

    @property
    def until(self) -> datetime | None:
        """When the oldest record may be lost to its age."""
        return None if self.retention.time is None else self.oldest + self.retention.time

    @property
    def most(self) -> int | None:
        """How many records the partition holds at the least before it deletes any."""
        return None if self.retention.bytes is None else int(self.retention.bytes / (self.mean_bytes + _OVERHEAD_BYTES))


@dataclass(frozen=True)
class UntilLoss:
    """How far from a loss a source is: None where nothing limits it. `short` says that either is below its threshold.

    `expired` is the timestamp of a record that is older than its topic's retention and still there, the oldest of those.
    """

    seconds: float | None = None
    offsets: int | None = None
    lost: int = 0
    short: bool = field(default=False)
    expired: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """As `status --json` prints it."""
        return {"seconds": self.seconds, "offsets": self.offsets, "lost": self.lost, "warning": self.warning}

    @property
    def warning(self) -> str | None:
        """A sentence for whoever has to run `archive`; None if there is time."""
        if self.lost:
            return f"{self.lost} offsets were lost before they were archived; `tandem archive` records them as a gap"
        if not self.short:
            return None
        if self.expired is not None:
            return (
                f"the timestamp {utc_text(self.expired)} of a record that is not archived is older than the topic's retention: "
                "the broker may delete it at any time; run `tandem archive`, and check the producer's clock"
            )
        left = [] if self.seconds is None else [f"{self.seconds / 3600:.1f} hours"]
        left += [] if self.offsets is None else [f"{self.offsets} offsets"]
        return f"in {' or '.join(left)} the log may lose records that are not archived; run `tandem archive`"


def until_loss(waiting: Iterable[Waiting], *, lost: int, now: datetime, warn: timedelta) -> UntilLoss:
    """The least of all partitions. A time is short below `warn` or half of the retention, offsets below half of what is held."""
    seconds: list[float] = []
    offsets: list[int] = []
    short, expired = False, list[datetime]()
    for one in waiting:
        if one.until is not None and one.retention.time is not None:
            left = max(timedelta(0), one.until - now)
            seconds.append(round(left.total_seconds(), 3))
            short |= left < min(warn, one.retention.time / 2)
            expired += [one.oldest] if one.until <= now else []
        if one.most is not None:
            room = max(0, one.most - one.offsets)
            offsets.append(room)
            short |= 2 * room < one.most
    return UntilLoss(min(seconds, default=None), min(offsets, default=None), lost, short, min(expired, default=None))
