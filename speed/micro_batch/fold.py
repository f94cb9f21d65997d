"""Fold one micro-batch on the driver: run the tasks, drop duplicates across tasks, merge the shares of the tasks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from tandem.infra.spark.versions import compared
from tandem.ledger.log.counts import Counts, add
from tandem.ledger.log.last_records import LastRecord, LastRecords, newest_of
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.speed.dedup.across_tasks import find_duplicates
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.keys import KnownWords
from tandem.speed.dedup.within_task import Identities
from tandem.speed.micro_batch.task import SCHEMA, Share, SmallTable, Task, TaskTable, fold, partial_of, shares, without
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.errors import TandemError
from tandem.views.instant import nearest_time
from tandem.views.kernel.kernel import merge
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.watermark import Maxima, newest
from tandem.views.view import View

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast
    from pyspark.sql import DataFrame

    from tandem.speed.dedup.keys import Words


_WITH_TASKS: Final = 8192
"""Words of a run that travels with the tasks: it is too small for a broadcast of its own."""
_BYTES_WITH_TASKS: Final = 8 * _WITH_TASKS
"""The same for the versions of a table."""


@dataclass
class Workers:
    """The runs of words and the tables that workers have, and what tasks are to hand back.

    A worker keeps a broadcast run as long as its tasks name it, so it has the words of one source at a time. The dedup window
    merges runs level by level, so each of N words travels about log2 N times to each worker. Spark's driver keeps each run in its
    block manager, and on disk, until it is withdrawn.

    `hand_back` is whether tasks hand back the events that they fold. It costs time and memory, so tasks do it only after a
    micro-batch in which several tasks read the same identity.
    """

    hand_back: bool = False
    _sent: "dict[int, tuple[Words, Broadcast[Words]]]" = field(default_factory=dict, repr=False)
    _tables: "dict[str, tuple[bytes, Broadcast[bytes]]]" = field(default_factory=dict, repr=False)

    def known(self, records: "DataFrame", known: KnownWords) -> KnownWords:
        """These runs for the tasks of the next job over these records; runs that they do not name are withdrawn."""
        runs = [run if isinstance(run, np.ndarray) else run.value for run in known.runs]
        large = {id(run): run for run in runs if len(run) > _WITH_TASKS}
        self._withdraw(self._sent.keys() - large.keys())
        for name, run in large.items():
            if name not in self._sent:
                # The run is kept beside its broadcast, so that no other run can get its id.
                self._sent[name] = run, records.sparkSession.sparkContext.broadcast(run)
        return KnownWords(tuple(self._sent[id(run)][1] if id(run) in large else run for run in runs))

    def versions(self, records: "DataFrame", versions: Mapping[str, TaskTable]) -> dict[str, TaskTable]:
        """What tasks of the next job look up in; a base that is a broadcast already is not sent again."""
        small = {name: table for name, table in versions.items() if isinstance(table, SmallTable)}
        large = {name: base for name, (base, _) in small.items() if isinstance(base, bytes) and len(base) > _BYTES_WITH_TASKS}
        for name in [name for name, (base, _) in self._tables.items() if large.get(name) is not base]:
            self._tables.pop(name)[1].destroy(blocking=False)
        for name in large.keys() - self._tables.keys():
            self._tables[name] = large[name], records.sparkSession.sparkContext.broadcast(large[name])
        return {**versions, **{name: SmallTable(self._tables[name][1], small[name].added) for name in large}}

    def close(self) -> None:
        """Withdraw all that was sent; no job may be running."""
        self._withdraw(set(self._sent))
        while self._tables:
            self._tables.popitem()[1][1].destroy(blocking=False)

    def _withdraw(self, names: Iterable[int]) -> None:
        for name in names:
            self._sent.pop(name)[1].destroy(blocking=False)


HANDED_BACK_BYTES: Final = 32_000_000
"""How much the tasks of a micro-batch hand back at most, together: it passes through the heap of the driver's JVM."""


class RangeMismatch(TandemError, code="micro-batch-torn"):
    """The records that were read do not fit the planned range."""


@dataclass(frozen=True)
class MicroBatchResult:
    """The result of a micro-batch: the content of its commit, and the identities to add to the dedup window.

    `across` is whether several tasks read the same identity.
    """

    counts: Counts
    rejected: Mapping[str, Mapping[str, int]]
    after_final: Mapping[str, int]
    maxima: Maxima
    newest: datetime | None
    partials: Mapping[str, bytes]
    identities: Identities
    across: bool = False
    last_records: LastRecords = field(default_factory=dict)


def fold_records(
    records: "DataFrame",
    task: Task,
    views: Mapping[str, View],
    ranges: Ranges,
    dedup_window: DedupWindow,
    *,
    workers: Workers,
    schemas: RegistrySchemas | None = None,
) -> MicroBatchResult:
    """Fold the records of exactly these ranges: one Spark job, or two if several tasks read the same identity.

    After such a micro-batch, tasks hand back the events that they fold, within bounds. The driver then folds a task's events
    again, without those that another task has read, too.

    `views` are the source's by fingerprint. A hole is an offset of the ranges without a record. Raises RangeMismatch if a record
    lies outside the ranges, DefinitionError, and what Spark raises.
    """
    most = HANDED_BACK_BYTES // max(1, len(ranges.intervals)) if workers.hand_back else 0
    run = partial(_run, records, workers)
    folded = fold_shares(run, replace(task, hand_back=most), views, ranges, dedup_window, schemas=schemas)
    workers.hand_back = folded.across
    return folded


def fold_shares(
    run: Callable[[Task], Sequence[Share]],
    task: Task,
    views: Mapping[str, View],
    ranges: Ranges,
    dedup_window: DedupWindow,
    *,
    schemas: RegistrySchemas | None = None,
) -> MicroBatchResult:
    """The same for the shares that `run` returns for a task: one of each part of the records, always the same parts.

    With `schemas`, tasks get those of the source's registries. New ones are fetched here, and the tasks run again. Raises
    RegistryAway.
    """
    task = replace(task, known=dedup_window.known)
    task, found = _with_all_schemas(run, task, schemas)
    judged = find_duplicates([from_ipc(share.identities) for share in found], dedup_window, task.generations)
    again = replace(task, drops=judged.drops, admitted=judged.admitted)
    if judged.admitted or (judged.drops and any(share.handed_back is None for share in found)):
        found = run(replace(again, hand_back=0))
    elif judged.drops:
        found = [without(again, share) for share in found]
    return MicroBatchResult(
        counts=replace(_counts(found, ranges), conflicts=judged.conflicts),
        rejected={fingerprint: add(*(share.rejected[fingerprint] for share in found)) for fingerprint in views},
        after_final=add(*(share.after_final for share in found)),
        maxima=newest(dict(share.maxima) for share in found),
        newest=max((nearest_time(share.newest) for share in found if share.newest is not None), default=None),
        partials={fingerprint: _united(view, fingerprint, found) for fingerprint, view in views.items()},
        identities=judged.added,
        across=bool(judged.drops),
        last_records=newest_of({place: LastRecord(offset, text)} for share in found for place, offset, text in share.last),
    )


def _with_all_schemas(
    run: Callable[[Task], Sequence[Share]], task: Task, schemas: RegistrySchemas | None
) -> tuple[Task, Sequence[Share]]:
    """The task with all schemas that its records name, and its shares."""
    if schemas is None:
        return task, run(task)
    task = replace(task, files=schemas.attach(task.files))
    shares = run(task)
    if missing := {key for share in shares for key in share.missing}:
        schemas.fetch(sorted(missing), source=task.source)
        task = replace(task, files=schemas.attach(task.files))
        shares = run(task)
    return task, shares


def _run(records: "DataFrame", workers: Workers, task: Task) -> list[Share]:
    task = replace(task, known=workers.known(records, task.known), versions=workers.versions(records, task.versions))
    return shares(records.mapInArrow(compared(partial(fold, task)), SCHEMA).toArrow())


def _counts(found: Sequence[Share], ranges: Ranges) -> Counts:
    planned = {partition: (intervals[0][0], intervals[-1][1]) for partition, intervals in ranges.intervals}
    for partition, _, low, high in (record for share in found for record in share.records):
        start, end = planned.get(partition, (0, 0))
        if not start <= low <= high < end:
            raise RangeMismatch(
                f"offsets {low} to {high} of partition {partition[1]} of topic {partition[0]} were read, but [{start}, {end}) "
                "was planned; this micro-batch was not committed"
            )
    read = sum(count for share in found for _, count, _, _ in share.records)
    if read > ranges.length:
        raise RangeMismatch(
            f"{read} records were read from a range of {ranges.length} offsets; this micro-batch was not committed"
        )
    return Counts(
        events=sum(share.events for share in found),
        quarantined=add(*(share.quarantined for share in found)),
        holes=ranges.length - read,
        late=sum(share.late for share in found),
        ahead=sum(share.ahead for share in found),
        duplicates=sum(share.duplicates for share in found),
        others=sum(share.others for share in found),
        further=sum(share.further for share in found),
        off_calendar=sum(share.off_calendar for share in found),
        rounded=sum(share.rounded for share in found),
        rejected_events=sum(share.rejected_events for share in found),
        skipped=sum(share.skipped for share in found),
    )


def _united(view: View, fingerprint: str, found: Sequence[Share]) -> bytes:
    if len(found) == 1:
        return found[0].partials[fingerprint]
    return to_ipc(merge(view, [partial_of(share, fingerprint) for share in found]).states)
