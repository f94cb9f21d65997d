"""One commit of a realtime table: what one micro-batch added to all views of a source, or a mark between micro-batches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from ledger.log.counts import NOTHING, Counts
from ledger.log.positions import Position
from views.errors import TandemError
from views.source.watermark import Maxima

Kind = Literal["fold", "bridge", "epoch", "cut"]
"""fold: the partials of a range. bridge: a range without contributions, which only a batch view covering it may cross.
epoch: a new writer's first act. cut: a boundary that a batch run has reserved. The last two are marks of no length."""


@dataclass(frozen=True)
class Span:
    """Where a commit stands: `[start, end)` in whole position vectors, under the epoch of its writer.

    `batches` is the number of micro-batches that it holds: more than one after compaction. A fold and a bridge advance; a
    mark does not.
    """

    start: Position
    end: Position
    epoch: int
    kind: Kind
    batches: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        still = self.start == self.end
        if not (still if self.mark else not still and self.start.at_or_below(self.end)):
            must = "stand still" if self.mark else "end above its start"
            raise TandemError(f"a {self.kind} over [{self.start}, {self.end}) is not a commit: it must {must}")

    @property
    def mark(self) -> bool:
        """Whether the commit only marks a position."""
        return self.kind in ("epoch", "cut")

    @property
    def key(self) -> tuple[int, Kind, Position, Position]:
        """What tells whether a commit landed: the epoch, and the range with its kind."""
        return self.epoch, self.kind, self.start, self.end


@dataclass(frozen=True)
class Commit(Span):
    """A span with its content.

    `partials` holds, by view fingerprint, the partial as Arrow IPC bytes; a fold has one for every view of the source, be
    its range empty of events or not. `rejected` counts by fingerprint and reason. `maxima` are the newest event and append
    times of the range by partition, and `newest` is the append time of its newest event. `watermark` is how far event time
    has come at its end, in microseconds since 1970, None without events; `after_final` counts, by fingerprint, the events
    that came into windows that were final at its start, where it is not 0. `at` is the time of the commit and `by` says who
    made it. All that the log had received until `caught_up` lies below the commit's end; None while nobody knows. Copies of
    events counted before `identities_since` were not recognized, because their identities had been evicted for lack of memory;
    None where none had.
    """

    counts: Counts = NOTHING
    rejected: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    maxima: Maxima = field(default_factory=dict, hash=False)
    newest: datetime | None = None
    watermark: int | None = None
    after_final: Mapping[str, int] = field(default_factory=dict, hash=False)
    partials: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    at: datetime | None = None
    by: str = ""
    caught_up: datetime | None = None
    identities_since: datetime | None = None
