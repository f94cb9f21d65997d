"""Where an answer comes from: what was counted, up to where, how fresh it is and how exact."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from ledger.gaps import Gap
from ledger.positions import Position
from views.measures.measure import Approximation
from views.rows import time_text

Layer = Literal["batch", "speed", "merged"]
"""What is counted: the log below the cut, the log from the cut on, or both."""


@dataclass(frozen=True)
class Provenance:
    """What one answer counts: `batch_version` is everything below `cut`, the realtime commits are `[cut, realtime)`.

    `realtime` is the answer's position; an answer of the layer `batch` stands at the cut itself. `newest` is the log's append
    time of the newest event counted, None without events. `horizon` is within what time of the event the tail has dropped
    copies, None where no copy can be in it. `watermark` is how far event time has come there, in microseconds since 1970, and
    `after_final` how many of the view's events came into windows that answers had labelled final before, whatever was
    selected. `approximate` has the measures that are not exact. `rejected`
    counts, by reason, the events that this view alone could not look at, whatever was selected. `gaps` are the offsets in the
    counted range that the log lost, and `compacted` says that the log may have lost others, which newer events have replaced.
    """

    layer: Layer
    publication: int
    release: int
    fingerprint: str
    batch_version: int
    cut: Position
    realtime: Position
    newest: datetime | None
    horizon: timedelta | None
    watermark: int | None
    after_final: int
    approximate: Mapping[str, Approximation]
    rejected: Mapping[str, int]
    gaps: tuple[Gap, ...] = ()
    compacted: bool = False

    @property
    def exact(self) -> bool:
        """Whether every event of the counted range counts once, in measures that are all exact, whatever was selected."""
        return not (self.approximate or self.gaps or self.compacted or self.horizon is not None)

    def to_json(self, *, now: datetime) -> dict[str, Any]:
        """The provenance as `query --json` prints it; `age_s` is how long before `now` the newest event was appended."""
        return {
            "layer": self.layer,
            "publication": self.publication,
            "release": self.release,
            "fingerprint": self.fingerprint,
            "batch_version": self.batch_version,
            "cut": self.cut.to_json(),
            "realtime": self.realtime.to_json(),
            "age_s": age(self.newest, now=now),
            "horizon_s": None if self.horizon is None else self.horizon.total_seconds(),
            "watermark": written(self.watermark),
            "after_final": self.after_final,
            "approximate": {name: asdict(how) for name, how in self.approximate.items()},
            "exact": self.exact,
            "rejected": dict(self.rejected),
            "gaps": [{"name": gap.name, "reason": gap.reason, "ranges": gap.ranges.to_json()} for gap in self.gaps],
        }


def age(newest: datetime | None, *, now: datetime) -> float | None:
    """Seconds from an append to `now`; never negative, since the log's clock may run ahead of the reader's."""
    return None if newest is None else max(0.0, round((now - newest).total_seconds(), 3))


def written(watermark: int | None) -> str | None:
    """A watermark in ISO 8601, in UTC."""
    return None if watermark is None else time_text(watermark)
