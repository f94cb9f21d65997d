"""One source's realtime table as the speed layer writes it: micro-batch after micro-batch, each one commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import DataFrame

from ledger.commits import Commit
from ledger.positions import Position, ranges
from ledger.realtime import Writer
from speed.event_times import newest_times
from speed.fold import Task
from speed.horizon import Horizon
from speed.micro_batch import fold_records
from views.ranges import Offsets
from views.view import View


@dataclass
class Tail:
    """The log's tail of one source under one release, from the table's end on.

    `views` are the source's by fingerprint. `firsts` are the first offsets of partitions that the table's end lacks, where
    they are not 0. `maxima` are the newest event times by partition so far. `now` is the clock.
    """

    task: Task
    views: Mapping[str, View]
    writer: Writer
    by: str
    now: Callable[[], datetime]
    horizon: Horizon = field(default_factory=lambda: Horizon(0))
    firsts: Offsets = field(default_factory=dict)
    maxima: dict[tuple[str, int], int] = field(default_factory=dict)
    known: Position | None = None
    """Where the horizon stands: it holds what was counted below. Not the table's end once another run has bridged the log."""

    def extend(self, records: DataFrame, end: Position, *, still_there: Callable[[], object]) -> Commit:
        """Fold the records from the table's end to `end` and commit them, once `still_there` has not raised after the fetch.

        Raises Fenced, NotContiguous (the writer then stands at the table's new end), Unwritable, Torn, what
        `still_there` raises and what Spark raises; nothing is committed then.
        """
        start = self.writer.end
        covered = ranges(start, end, self.firsts)
        task = replace(self.task, maxima=self.maxima)
        folded = fold_records(records, task, self.views, covered, self.horizon)
        still_there()
        commit = Commit(
            start,
            end,
            self.writer.epoch,
            "fold",
            counts=folded.counts,
            rejected=folded.rejected,
            maxima=folded.maxima,
            newest=folded.newest,
            partials=folded.partials,
            at=self.now(),
            by=self.by,
        )
        self.writer.append(commit)
        self.horizon, self.known = self.horizon.extended(folded.identities), end
        self.maxima = newest_times([self.maxima, folded.maxima])
        return commit
