"""How long records that are not archived are safe from a topic's retention. Pure functions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from tandem.views.instant import utc_text

_DELETE = "delete"
# An upper bound of what Kafka adds to a record in a batch of its own: a partition is never full sooner than estimated.
_OVERHEAD_BYTES = 70
# A thousand years: "for ever" is written as -1, or as the largest number.
_EVER_MS = 1000 * 365 * 86_400_000


@dataclass(frozen=True)
class Retention:
    """A topic's retention: by time, and by bytes of a partition; None means unlimited."""

    time: timedelta | None = None
    bytes: int | None = None

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> Self:
        """The retention in a topic's configuration. A topic that is only compacted keeps each key's newest record for ever."""
        if _DELETE not in configuration["cleanup.policy"].split(","):
            return cls()
        milliseconds, size = int(configuration["retention.ms"]), int(configuration["retention.bytes"])
        limited = 0 <= milliseconds < _EVER_MS
        return cls(timedelta(milliseconds=milliseconds) if limited else None, size if size >= 0 else None)


@dataclass(frozen=True)
class UnarchivedOffsets:
    """The part of a partition that is not archived: its number of offsets, oldest record's timestamp and mean record size.

    The broker's retention uses the timestamp, which is the producer's, right or wrong.
    """

    retention: Retention
    offsets: int
    oldest: datetime
    mean_bytes: float

    @property
    def until(self) -> datetime | None:
        """When the broker may delete the oldest record for its age."""
        return None if self.retention.time is None else self.oldest + self.retention.time

    @property
    def most(self) -> int | None:
        """How many records the partition holds at least before the broker deletes any for its size."""
        return None if self.retention.bytes is None else int(self.retention.bytes / (self.mean_bytes + _OVERHEAD_BYTES))


@dataclass(frozen=True)
class UntilLoss:
    """How far a source is from a loss, in time and offsets; None means unlimited. `short`: one of them is below its threshold.

    `expired` is the oldest timestamp of a record that is older than its topic's retention and still exists.
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
        """A warning to run `archive`; None if there is time."""
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


def until_loss(waiting: Iterable[UnarchivedOffsets], *, lost: int, now: datetime, warn: timedelta) -> UntilLoss:
    """The least of all partitions. Short is a time below `warn` or half the retention, or fewer offsets than half of `most`."""
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
