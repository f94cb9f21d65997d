"""Where a follower of a source's log stands, and its one step: what it has folded of the next range becomes a commit.

The speed layer and the hot tail both follow by it. Pure: no I/O and no clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.realtime.commits import Commit, TableEnds
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.within_task import Identities
from tandem.speed.micro_batch.fold import MicroBatchResult
from tandem.speed.micro_batch.task import Task
from tandem.views.instant import microseconds, time_of
from tandem.views.source.offset_ranges import Offsets, Ranges
from tandem.views.source.watermark import Maxima, later, newest, watermark


@dataclass(frozen=True)
class FollowerState:
    """All that the records below `end` decide about later ones, and what the follower writes into its commits.

    Args:
        dedup_window: the identities counted below `end`.
        firsts: first offsets, where not 0, of partitions that `end` lacks.
        maxima, watermark: the newest times of the partitions, and the watermark.
        caught_up: everything that the log had received until then lies below `end`; None if it is unknown.
        epoch, by: of the commits.
        idle: partitions without events for longer do not hold the watermark back.
    """

    dedup_window: DedupWindow = field(repr=False)
    end: Position = LOG_START
    firsts: Offsets = field(default_factory=dict)
    maxima: Maxima = field(default_factory=dict)
    watermark: int | None = None
    caught_up: datetime | None = None
    epoch: int = 0
    by: str = ""
    idle: timedelta = timedelta.max

    def ranges_to(self, end: Position) -> Ranges:
        """The offsets of the next range."""
        return ranges(self.end, end, self.firsts)

    def labelling(self, task: Task) -> Task:
        """A task that labels the events of the next range."""
        return replace(task, maxima=self.maxima, watermark=self.watermark)

    def after(self, commit: Commit, identities: Identities) -> "FollowerState":
        """The state at the end of a commit that starts at this one's end and counted these identities."""
        assert commit.at is not None  # every commit of a follower has a time
        caught_up = None if commit.caught_up is None else microseconds(commit.caught_up)
        return replace(
            self,
            dedup_window=self.dedup_window.extended(identities, at=microseconds(commit.at), caught_up=caught_up),
            end=commit.end,
            maxima=newest([self.maxima, commit.maxima]),
            watermark=later(self.watermark, commit.watermark),
            caught_up=commit.caught_up,
        )


def step(
    state: FollowerState,
    folded: MicroBatchResult,
    end: Position,
    *,
    at: datetime,
    caught_up: datetime | None = None,
    looked_up: Mapping[str, TableEnds] | None = None,
) -> tuple[FollowerState, Commit]:
    """The state at `end`, and the commit made at `at` of what was folded up to there; a `caught_up` replaces the earlier one.

    `looked_up` has the tables in which it looked up.
    """
    commit = Commit(
        state.end,
        end,
        state.epoch,
        "fold",
        counts=folded.counts,
        rejected=folded.rejected,
        maxima=folded.maxima,
        newest=folded.newest,
        watermark=later(state.watermark, watermark(newest([state.maxima, folded.maxima]), state.idle)),
        after_final=folded.after_final,
        partials=folded.partials,
        at=at,
        by=state.by,
        caught_up=caught_up or state.caught_up,
        looked_up={**(looked_up or {})},
        last_records=folded.last_records,
        identities_since=None if state.dedup_window.since is None else time_of(state.dedup_window.since),
    )
    return state.after(commit, folded.identities), commit
