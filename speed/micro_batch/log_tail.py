"""Write one source's realtime table: each micro-batch is one commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import DataFrame

from ledger.log.positions import Position, ranges
from ledger.publish.publications import Publication
from ledger.realtime.commits import Commit
from ledger.realtime_writer import Writer
from speed.dedup.dedup_window import DedupWindow
from speed.dedup.identities import Identities
from speed.micro_batch.fold import fold_records
from speed.micro_batch.polled_ends import PolledEnd, PolledEnds
from speed.micro_batch.task import Task
from speed.micro_batch.workers import Workers
from views.instant import microseconds, time_of
from views.source.offset_ranges import Offsets
from views.source.source import Source
from views.source.watermark import Maxima, later, newest, watermark
from views.view import View


@dataclass
class Tail:
    """The tail of one source's log under one release, from the end of its realtime table on.

    Args:
        views: the source's views by fingerprint.
        firsts: first offsets, where not 0, of partitions that the table's end lacks.
        maxima, watermark: those of the commits since `live`.
        live: a publication of the release; a newer one may replace it at any time.
        now: the clock. Only its times, and the ends of the log at them, decide how long an identity is kept.
        caught_up: everything that the log had received until then is counted.
    """

    task: Task
    source: Source
    views: Mapping[str, View]
    writer: Writer
    live: Publication
    by: str
    now: Callable[[], datetime]
    dedup_window: DedupWindow = field(default_factory=lambda: DedupWindow(0))
    firsts: Offsets = field(default_factory=dict)
    maxima: Maxima = field(default_factory=dict)
    watermark: int | None = None
    caught_up: datetime | None = None
    known: Position | None = None
    """The position up to which the dedup window holds identities; below the table's end after another run has bridged the log."""
    ends: PolledEnds = field(default_factory=PolledEnds, repr=False)
    workers: Workers = field(default_factory=Workers, repr=False)

    def extend(self, records: DataFrame, end: Position, *, still_there: Callable[[], Position | None]) -> Commit:
        """Fold the records from the table's end to `end`, check the log with `still_there`, and commit.

        `still_there` returns the end of the log, None if it does not poll it. Raises Fenced, NotContiguous (the writer is then at
        the table's new end), Unwritable, Torn, what `still_there` raises and what Spark raises; then nothing is committed.
        """
        start, live, name = self.writer.end, self.live, self.source.name
        covered = ranges(start, end, self.firsts)
        maxima = newest([self.maxima, live.maxima.get(name, {})])
        reached = later(self.watermark, live.watermarks.get(name))
        task = replace(self.task, maxima=maxima, watermark=reached)
        folded = fold_records(records, task, self.views, covered, self.dedup_window, workers=self.workers)
        asked = self.now()
        there = still_there()
        newly = None if there is None else self.ends.caught_up(PolledEnd(asked, there), end)
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
            identities_since=None if self.dedup_window.since is None else time_of(self.dedup_window.since),
        )
        self.writer.append(commit)
        self._remember(commit, folded.identities)
        self.maxima, self.watermark = maxima, reached
        return commit

    def _remember(self, commit: Commit, identities: Identities) -> None:
        assert commit.at is not None  # every commit of a tail has a time
        self.caught_up, self.known = commit.caught_up, commit.end
        caught_up = None if commit.caught_up is None else microseconds(commit.caught_up)
        self.dedup_window = self.dedup_window.extended(identities, at=microseconds(commit.at), caught_up=caught_up)
