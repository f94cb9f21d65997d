"""Where an answer comes from: what was counted, up to where, how fresh it is and how exact."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from tandem.ledger.log.gaps import Gap
from tandem.ledger.log.history import SourceHistory
from tandem.ledger.log.positions import Position
from tandem.views.exactness import Exactness
from tandem.views.instant import utc_text
from tandem.views.kernel.rows import time_text
from tandem.views.start import StartPositions

Layer = Literal["batch", "speed", "merged"]
"""What is counted: the log below the cut, the log from the cut on, or both."""


@dataclass(frozen=True)
class SourceProvenance:
    """What one of several sources gives to an answer, with the meanings of Provenance."""

    batch_version: int
    cut: Position
    realtime: Position
    hot: Position | None
    newest: datetime | None
    watermark: int | None
    ahead: int
    start: StartPositions | None
    history: SourceHistory | None

    def to_json(self, *, now: datetime) -> dict[str, Any]:
        """As a part of the document of Provenance."""
        return {
            "batch_version": self.batch_version,
            "cut": self.cut.to_json(),
            "realtime": self.realtime.to_json(),
            "hot": None if self.hot is None else self.hot.to_json(),
            "start": None if self.start is None else self.start.to_json(),
            "history": None if self.history is None else self.history.to_json(),
            "age_s": age(self.newest, now=now),
            "watermark": written(self.watermark),
            "ahead": self.ahead,
        }


@dataclass(frozen=True)
class TableProvenance:
    """Up to which position of its source a table is known to an answer, and how many versions came too late for some events."""

    position: Position
    corrections: int

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the fields."""
        return {"position": self.position.to_json(), "corrections": self.corrections}


@dataclass(frozen=True)
class Provenance:
    """What one answer counts: `batch_version` is everything below `cut`, the realtime commits are `[cut, realtime)`.

    | field | meaning |
    | --- | --- |
    | `realtime` | the answer's position; that of an answer of the layer `batch` is the cut |
    | `hot` | where the hot part `[hot, realtime)` begins, which no table has yet; None without one |
    | `newest` | the append time of the newest counted event; None without events |
    | `watermark` | the watermark there, in microseconds since 1970 |
    | `after_final` | how many of the view's events arrived in windows labelled final before, over all rows |
    | `ahead` | how many of the source's events were ahead of their records' timestamps (tandem.views.source.watermark) |
    | `rejected` | by reason, the events that this view alone could not evaluate, over all rows |
    | `gaps` | the offsets in the counted range that the log lost |
    | `accepted` | the names of the gaps that the publication was built without |
    | `start` | where the source starts, if its definition says: records before that do not count |
    | `kept_from` | the start of the first window that stays: earlier ones have left (`View(keep=...)`); None if all stay |
    | `history` | the tables before the source's topics, and its records that expired; None if answers stand on its topics alone |
    | `exactness` | what is exact, and why not if it is not |
    | `rollup_of` | of a rollup its parent, the parent's parent and so on; positions and counts are those of the last one |
    | `sources` | of several sources each by name; positions are then of what all have counted, the watermark is the least |
    | `tables` | of a view that looks up in tables these, by the name of the table's source |
    | `live` | false if the release was asked before its promotion: `publication` was live meanwhile |
    """

    layer: Layer
    publication: int
    release: int
    fingerprint: str
    batch_version: int
    cut: Position
    realtime: Position
    newest: datetime | None
    watermark: int | None
    after_final: int
    ahead: int
    rejected: Mapping[str, int]
    gaps: tuple[Gap, ...] = ()
    accepted: tuple[str, ...] = ()
    exactness: Exactness = field(default_factory=Exactness)
    hot: Position | None = None
    start: StartPositions | None = None
    kept_from: datetime | None = None
    rollup_of: tuple[str, ...] = ()
    history: SourceHistory | None = None
    live: bool = True
    sources: Mapping[str, SourceProvenance] = field(default_factory=dict)
    tables: Mapping[str, TableProvenance] = field(default_factory=dict)

    @property
    def whose(self) -> str:
        """The publication; of a release that is not live, the release and what is."""
        publication = f"publication {self.publication}"
        return publication if self.live else f"release {self.release} as if it were promoted now (live is {publication})"

    @property
    def exact(self) -> bool:
        """Whether every value of the answer is exact."""
        return self.exactness.label == "exact"

    def of(self, *, touched: bool) -> "Provenance":
        """The provenance of an answer with or without rows that realtime states are part of."""
        return self if touched or not self.exactness.marked else replace(self, exactness=self.exactness.unmarked())

    def to_json(self, *, now: datetime) -> dict[str, Any]:
        """The provenance as `query --json` prints it; `age_s` is the time from the newest event's append to `now`."""
        return {
            "layer": self.layer,
            "publication": self.publication,
            "release": self.release,
            "live": self.live,
            "fingerprint": self.fingerprint,
            "batch_version": self.batch_version,
            "cut": self.cut.to_json(),
            "realtime": self.realtime.to_json(),
            "hot": None if self.hot is None else self.hot.to_json(),
            "start": None if self.start is None else self.start.to_json(),
            "kept_from": None if self.kept_from is None else utc_text(self.kept_from),
            **({"rollup_of": list(self.rollup_of)} if self.rollup_of else {}),
            "history": None if self.history is None else self.history.to_json(),
            **({"sources": {name: each.to_json(now=now) for name, each in self.sources.items()}} if self.sources else {}),
            **({"tables": {name: each.to_json() for name, each in self.tables.items()}} if self.tables else {}),
            "age_s": age(self.newest, now=now),
            "watermark": written(self.watermark),
            "after_final": self.after_final,
            "ahead": self.ahead,
            "exactness": self.exactness.to_json(),
            "rejected": dict(self.rejected),
            "gaps": [
                {
                    "name": gap.name,
                    "reason": gap.reason,
                    "ranges": gap.ranges.to_json(),
                    "accepted": gap.name in self.accepted,
                }
                for gap in self.gaps
            ],
        }


def age(newest: datetime | None, *, now: datetime) -> float | None:
    """Seconds from an append to `now`; never negative, since the log's clock may run ahead of the reader's."""
    return None if newest is None else max(0.0, round((now - newest).total_seconds(), 3))


def written(watermark: int | None) -> str | None:
    """A watermark in ISO 8601, in UTC."""
    return None if watermark is None else time_text(watermark)
