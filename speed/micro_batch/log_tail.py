"""Write one source's realtime table: each micro-batch is one commit."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from pyspark.sql import DataFrame

from tandem.ledger.log.last_records import LastRecords, newest_of
from tandem.ledger.log.positions import Position
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.ledger.publish.publications import Publication
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime_writer import Writer
from tandem.speed.micro_batch.fold import Workers, fold_records
from tandem.speed.micro_batch.follower_state import FollowerState, step
from tandem.speed.micro_batch.task import KnownVersions, Task
from tandem.views.source.source import Source
from tandem.views.source.watermark import later, newest
from tandem.views.view import View

_EVERY: Final = timedelta(seconds=5)
"""Least time between two ends that are remembered while the layer is behind."""


class PolledEnd(NamedTuple):
    """The end of the log when it was polled."""

    asked: datetime
    position: Position


@dataclass
class PolledEnds:
    """The polled ends of the log that the layer has not reached yet, the earliest first, by the layer's clock.

    They say until when all received records are counted. Timestamps of records do not matter: the log received records beyond a
    polled end after that poll.
    """

    _ahead: deque[PolledEnd] = field(default_factory=deque)

    def caught_up(self, end: PolledEnd, reached: Position) -> datetime | None:
        """The latest time until which everything that the log had received lies below `reached`; None without a new one.

        `end` is the newest polled end of the log.
        """
        found = None
        while self._ahead and self._ahead[0].position.at_or_below(reached):
            found = self._ahead.popleft().asked
        if end.position.at_or_below(reached):
            return end.asked
        # Also if the clock was set back.
        if not self._ahead or abs(end.asked - self._ahead[-1].asked) >= _EVERY:
            self._ahead.append(end)
        return found


@dataclass
class UncommittedLog:
    """The tail of one source's log under one release, from the end of its realtime table on.

    Args:
        views: the source's views by fingerprint.
        live: a publication of the release; a newer one may replace it at any time.
        now: the clock. Only its times, and the ends of the log at them, decide how long an identity is kept.
        schemas: those of the source's registries, if its records name schemas.
        state: what is known of the log below its end, which is the table's, or below it after another run has bridged the log.
        look_up: what the views look up in now, and up to where that is known; called before a micro-batch is folded.
        last_records: of each partition the last record that a commit has, to compare with the log.
    """

    task: Task
    source: Source
    views: Mapping[str, View]
    writer: Writer
    live: Publication
    now: Callable[[], datetime]
    state: FollowerState
    last_records: LastRecords = field(default_factory=dict, repr=False)
    ends: PolledEnds = field(default_factory=PolledEnds, repr=False)
    workers: Workers = field(default_factory=Workers, repr=False)
    schemas: RegistrySchemas | None = field(default=None, repr=False)
    look_up: Callable[[], KnownVersions] = field(default=KnownVersions, repr=False)

    def extend(self, records: DataFrame, end: Position, *, still_there: Callable[[], Position | None]) -> Commit:
        """Fold the records from the state's end to `end`, check the log with `still_there`, and commit.

        `still_there` returns the end of the log, None if it does not poll it. Raises NewerEpoch, NotContiguous
        (the writer is then at the table's new end), Unwritable, Torn, what `still_there` raises and what Spark raises; then
        nothing is committed.
        """
        live, name = self.live, self.source.name
        state = replace(
            self.state,
            maxima=newest([self.state.maxima, live.maxima.get(name, {})]),
            watermark=later(self.state.watermark, live.watermarks.get(name)),
        )
        looked_up = self.look_up()
        folded = fold_records(
            records,
            replace(state.labelling(self.task), versions=looked_up.versions),
            self.views,
            state.ranges_to(end),
            state.dedup_window,
            workers=self.workers,
            schemas=self.schemas,
        )
        asked = self.now()
        there = still_there()
        caught_up = None if there is None else self.ends.caught_up(PolledEnd(asked, there), end)
        state, commit = step(state, folded, end, at=self.now(), caught_up=caught_up, looked_up=looked_up.ends)
        self.writer.append(commit)
        self.state = state
        self.last_records = newest_of([self.last_records, commit.last_records])
        return commit
