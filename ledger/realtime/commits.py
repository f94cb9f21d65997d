"""One commit of a realtime table: what one micro-batch adds to all views of a source, or a mark between micro-batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from tandem.ledger.log.counts import NOTHING, Counts
from tandem.ledger.log.erasures import Erasure
from tandem.ledger.log.last_records import LastRecords
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.views.errors import TandemError
from tandem.views.source.watermark import Maxima

Kind = Literal["fold", "bridge", "epoch", "cut"]
"""fold: the partials of a range. bridge: a range without contributions, which readers cross once a batch view covers it.
epoch: the first commit of a new writer. cut: a boundary that a batch run has reserved. The last two are marks of no length."""


class TableEnds(NamedTuple):
    """Up to which positions look-ups of a commit knew the log of a table: in its micro-batch that knew least, and most.

    `publication` is the state whose batch view of the versions they read, the first of its micro-batches; 0 if it is unknown.
    """

    least: Position
    most: Position
    publication: int = 0


@dataclass(frozen=True)
class Span:
    """The range of a commit: `[start, end)` in position vectors, under the epoch of its writer.

    `batches` is the number of micro-batches in it: more than one after compaction. A fold and a bridge have a length, a mark has
    none. `looked_up` has, by source, the tables in which its views looked up.
    """

    start: Position
    end: Position
    epoch: int
    kind: Kind
    batches: int = field(default=1, kw_only=True)
    looked_up: Mapping[str, TableEnds] = field(default_factory=dict, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        still = self.start == self.end
        if not (still if self.mark else not still and self.start.at_or_below(self.end)):
            must = "end where it starts" if self.mark else "end above its start"
            raise TandemError(f"a {self.kind} over [{self.start}, {self.end}) is not a commit: it must {must}")

    @property
    def mark(self) -> bool:
        """Whether the commit only marks a position."""
        return self.kind in ("epoch", "cut")

    @property
    def key(self) -> tuple[int, Kind, Position, Position]:
        """What identifies a commit, to look up whether it landed: the epoch, the kind and the range."""
        return self.epoch, self.kind, self.start, self.end


@dataclass(frozen=True)
class Commit(Span):
    """A span with its content.

    Args:
        rejected: counts by view fingerprint and reason.
        maxima: the newest event and append times of the range, by partition.
        newest: the append time of the newest event of the range.
        watermark: the watermark at the end, in microseconds since 1970; None without events.
        after_final: by view fingerprint, how many events arrived for windows that were final at the start, if any.
        partials: by view fingerprint, the partial as Arrow IPC bytes. A fold has one for every view, also without events.
        at: the time of the commit.
        by: the command or part that made it.
        caught_up: the commit's end lies above everything that the log had received until then; None if unknown.
        identities_since: duplicates of events counted before this time were not found, because memory for their identities was
            short; None if all identities were kept.
        last_records: the last record of each partition in the range, to compare with the log before it is read on.
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
    last_records: LastRecords = field(default_factory=dict, hash=False)


def newest_caught_up(commits: Sequence[Commit]) -> datetime | None:
    """The `caught_up` of the last of some commits in log order that has it."""
    return next((commit.caught_up for commit in reversed(commits) if commit.caught_up), None)


def looks_up_records_of(span: Span, erasure: Erasure) -> bool:
    """Whether a commit may have looked up records of a table's source that are erased, in versions from before that."""
    ends = span.looked_up.get(erasure.source)
    if ends is None or ends.publication >= erasure.publication:
        return False
    return bool(erasure.ranges.within(ranges(LOG_START, ends.most)).length)
