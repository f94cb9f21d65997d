"""One source's realtime table as the speed layer writes it: micro-batch after micro-batch, each one commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import DataFrame

from ledger.log.positions import Position, ranges
from ledger.publish.publications import Publication
from ledger.realtime.commits import Commit
from ledger.realtime_writer import Writer
from speed.dedup.dedup_window import Horizon
from speed.dedup.identities import Identities
from speed.dedup.times import microseconds, time_of
from speed.micro_batch.fold import fold_records
from speed.micro_batch.log_ends import End, LogEnds
from speed.micro_batch.task import Task
from views.source.offset_ranges import Offsets
from views.source.source import Source
from views.source.watermark import Maxima, later, newest, watermark
from views.view import View


@dataclass
class Tail:
    """The log's tail of one source under one release, from the table's end on.

    `views` are the source's by fingerprint. `firsts` are the first offsets of partitions that the table's end lacks, where
    they are not 0. `maxima` and `watermark` say how far its commits have come, as far as `live`, a publication of the release,
    does not know it already; a newer one may take its place at any time. `now` is the clock: its times alone, and where the
    log ended at them, decide how long an identity is kept. `caught_up` is when all that the log had received was counted.
    """

    task: Task
    source: Source
    views: Mapping[str, View]
    writer: Writer
    live: Publication
    by: str
    now: Callable[[], datetime]
    horizon: Horizon = field(default_factory=lambda: Horizon(0))
    firsts: Offsets = field(default_factory=dict)
    maxima: Maxima = field(default_factory=dict)
    watermark: int | None = None
    caught_up: datetime | None = None
    known: Position | None = None
    """Where the horizon stands: it holds what was counted below. Not the table's end once another run has bridged the log."""
    ends: LogEnds = field(default_factory=LogEnds, repr=False)

    def extend(self, records: DataFrame, end: Position, *, still_there: Callable[[], Position | None]) -> Commit:
        """Fold the records from the table's end to `end` and commit them, once `still_there` has not raised after the fetch.

        `still_there` gives where the log ends then, None where that is not asked.
        Raises Fenced, NotContiguous (the writer then stands at the table's new end), Unwritable, Torn, what
        `still_there` raises and what Spark raises; nothing is committed then.
        """
        start, live, name = self.writer.end, self.live, self.source.name
        covered = ranges(start, end, self.firsts)
        maxima = newest([self.maxima, live.maxima.get(name, {})])
        reached = later(self.watermark, live.watermarks.get(name))
        task = replace(self.task, maxima=maxima, watermark=reached)
        folded = fold_records(records, task, self.views, covered, self.horizon)
        asked = self.now()
        there = still_there()
        newly = None if there is None else self.ends.caught_up(End(asked, there), end)
        caught_up = newly or self.caught_up
        maxima = newest([maxima, folded.maxima])
        reached = later(reached, watermark(maxima, self.source.idle))
        commit = Commit(
            start,
            end,
            self.writer.epoch,
            "fold",
            counts=folded.counts,
            rejected=folded.rejected,
            maxima=folded.maxima,
            newest=folded.newest,
            watermark=reached,
            after_final=folded.after_final,
            partials=folded.partials,
            at=self.now(),
            by=self.by,
            caught_up=caught_up,
            identities_since=None if self.horizon.since is None else time_of(self.horizon.since),
        )
        self.writer.append(commit)
        self._remember(commit, folded.identities)
        self.maxima, self.watermark = maxima, reached
        return commit

    def _remember(self, commit: Commit, identities: Identities) -> None:
        assert commit.at is not None  # every commit of a tail has a time
        self.caught_up, self.known = commit.caught_up, commit.end
        caught_up = None if commit.caught_up is None else microseconds(commit.caught_up)
        self.horizon = self.horizon.extended(identities, at=microseconds(commit.at), caught_up=caught_up)
