"""One source's realtime table as the speed layer writes it: micro-batch after micro-batch, each one commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import DataFrame

from ledger.commits import Commit
from ledger.positions import Position, ranges
from ledger.publications import Publication
from ledger.realtime import Writer
from speed.fold import Task
from speed.horizon import Horizon
from speed.micro_batch import fold_records
from views.ranges import Offsets
from views.source import Source
from views.view import View
from views.watermark import Maxima, later, newest, watermark


@dataclass
class Tail:
    """The log's tail of one source under one release, from the table's end on.

    `views` are the source's by fingerprint. `firsts` are the first offsets of partitions that the table's end lacks, where
    they are not 0. `maxima` and `watermark` say how far its commits have come, as far as `live`, a publication of the release,
    does not know it already; a newer one may take its place at any time. `now` is the clock.
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
    known: Position | None = None
    """Where the horizon stands: it holds what was counted below. Not the table's end once another run has bridged the log."""

    def extend(self, records: DataFrame, end: Position, *, still_there: Callable[[], object]) -> Commit:
        """Fold the records from the table's end to `end` and commit them, once `still_there` has not raised after the fetch.

        Raises Fenced, NotContiguous (the writer then stands at the table's new end), Unwritable, Torn, what
        `still_there` raises and what Spark raises; nothing is committed then.
        """
        start, live, name = self.writer.end, self.live, self.source.name
        covered = ranges(start, end, self.firsts)
        maxima = newest([self.maxima, live.maxima.get(name, {})])
        reached = later(self.watermark, live.watermarks.get(name))
        task = replace(self.task, maxima=maxima, watermark=reached)
        folded = fold_records(records, task, self.views, covered, self.horizon)
        still_there()
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
        )
        self.writer.append(commit)
        self.horizon, self.known = self.horizon.extended(folded.identities), end
        self.maxima, self.watermark = maxima, reached
        return commit
