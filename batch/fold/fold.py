"""Fold events into all views of a source in one scan, then merge by key: one Spark job for any number of views.

A task folds its slice in bounded pieces and merges as it reads. It sends states as Arrow bytes to the bucket of their keys and
window. A bucket merges each view's states, also with states of earlier batch versions, and writes them as a file of that view's
table. Events that may be duplicates are set apart, and counted by the buckets (suspects.py). The kernel computes all numbers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tandem.batch.fold.accumulator import Accumulator
from tandem.batch.fold.dropped_positions import read_dropped_positions
from tandem.batch.fold.fold_job import (
    Beyond,
    Commits,
    FoldJob,
    FoldResult,
    KeyComparison,
    Side,
    StatesFile,
    TaskCounts,
    Unlike,
    ViewFile,
)
from tandem.batch.fold.lookup_files import load_versions
from tandem.batch.fold.suspects import Decided, SetApart, Suspects, decide, to_all
from tandem.batch.fold.write_states import write_states
from tandem.batch.runtime import spark_jobs
from tandem.ledger.delta.location import opened
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.hash_slots import by_slot, slot_columns
from tandem.ledger.publish.batch_parts import starting_within, staying
from tandem.ledger.stored_states import stored
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.fingerprint.additive import Apart, joined, with_measures
from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Partial
from tandem.views.project import project
from tandem.views.read_columns import columns
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.fields.rounded import roundings_schema, total_roundings
from tandem.views.source.log_order import further
from tandem.views.source.offset_ranges import EMPTY, Partition, Ranges
from tandem.views.source.source import Source, events_schema, position_columns
from tandem.views.source.watermark import Maxima, Newest, maxima_of, newest, newest_append, not_ahead, off_calendar
from tandem.views.verify.compare import compare
from tandem.views.view import View

# Large pieces: states of one key are merged within the fold, not after it.
_SCAN_ROWS: Final = 1 << 20
_PREPARED_ROWS: Final = 1 << 16  # An event may become many rows.
_SEND_BYTES: Final = 64 << 20
_COUNTING: Final = 0
"""The bucket that counts events."""
_TABLE: Final = "batch_states"
_APPEND_TIME: Final = "_append_time"


@dataclass(frozen=True)
class _FoldedStates:
    """States of a view, sent to a bucket. A task's last ones carry its ranges, earlier ones none."""

    view: str
    ranges: Ranges
    states: bytes
    side: Side


def fold(session: SparkSession, job: FoldJob, items: Sequence[Slice | Beyond | StatesFile | Commits]) -> FoldResult:
    """Fold slices and read states, one task each, and write the views' files. Commits nothing. Raises TaskFailed."""
    results = spark_jobs.each_then(session, partial(_fold, job), partial(_merge_bucket, job), items, job.buckets)
    return FoldResult(
        counted=tuple(one for one in results if isinstance(one, TaskCounts)),
        built=tuple(one for one in results if isinstance(one, ViewFile)),
        compared=tuple(one for one in results if isinstance(one, KeyComparison)),
        unlike=frozenset(one.view for one in results if isinstance(one, Unlike)),
        decided=next((one for one in results if isinstance(one, Decided)), Decided(0, 0)),
    )


def _fold(
    job: FoldJob, part: Slice | Beyond | StatesFile | Commits
) -> Iterator[tuple[int, _FoldedStates | TaskCounts | Suspects]]:
    match part:
        case Slice():
            yield from _fold_slice(job, part, "folded")
        case Beyond():
            yield from _fold_slice(job, part.part, "beyond")
        case StatesFile():
            yield from _merge_stored(job, part)
        case Commits():
            yield from _merge_commits(job, part)


def _fold_slice(job: FoldJob, part: Slice, side: Side) -> Iterator[tuple[int, _FoldedStates | TaskCounts | Suspects]]:
    source, views = _folded(job)
    dropped = read_dropped_positions(job.scratch, job.dropped, part.ranges)
    apart = SetApart.read(source, job.scratch, job.suspects)
    needed = {*(column for view in views.values() for column in columns(view)), _APPEND_TIME, source.time_column}
    needed |= set() if _only_partition(part.ranges) else {EVENTS.topic, EVENTS.partition}
    needed |= set(position_columns(source)) if dropped.places or source.max_events_per_record else set()
    needed |= set(roundings_schema(source.event).names)
    read = events_schema(source).names if job.suspects else sorted(needed)
    accumulators, versions = {name: Accumulator(view) for name, view in views.items()}, _versions(job)
    count, further_events, ahead_events, off_calendar_events, rounded_values = 0, 0, 0, 0, 0
    stamps, maxima = list[int](), list[Maxima]()
    rows = _SCAN_ROWS if source.prepare is None else _PREPARED_ROWS
    for scanned in scan(job.events, part, EVENTS, read, rows=rows, made=apart.made):
        further_events += further(scanned)
        ahead_events += int(kernel.ahead(source, scanned).sum())
        off_calendar_events += off_calendar(scanned)
        rounded_values += total_roundings(scanned)
        events, suspects = apart.split(dropped.keep(scanned), sorted(needed))
        yield from to_all(suspects, job.buckets)
        count += events.num_rows
        maxima.append(_maxima(source, events, part.ranges))
        stamps += [] if (stamp := newest_append(events)) is None else [stamp]
        prepared = kernel.prepare(source, _of_windows(job, source, events), job.generations)
        for one in accumulators.values():
            one.add(kernel.partial(one.view, prepared.events, EMPTY, prepared.failed, versions=versions))
            if one.bytes > _SEND_BYTES:
                yield from _sent(job, one.view, one.take(), EMPTY, side)
    rejected = {}
    for name, one in accumulators.items():
        yield from _sent(job, one.view, one.take(), part.ranges, side)
        rejected[name] = one.rejected
    yield (
        _COUNTING,
        TaskCounts(
            part.ranges,
            count,
            further_events,
            ahead_events,
            off_calendar_events,
            rounded_values,
            max(stamps, default=None),
            rejected,
            newest(maxima),
        ),
    )


def _only_partition(ranges: Ranges) -> Partition | None:
    """The partition of the ranges if there is only one: then no column has to be read for it."""
    return ranges.intervals[0][0] if len(ranges.intervals) == 1 else None


def _maxima(source: Source, events: pa.Table, ranges: Ranges) -> Maxima:
    partition = _only_partition(ranges)
    if partition is None:
        return maxima_of(source, events)
    events = not_ahead(source, events)
    if not events.num_rows:
        return {}
    return {partition: Newest(*(pc.max(events[name].cast(pa.int64())).as_py() for name in (source.time_column, _APPEND_TIME)))}


def _of_windows(job: FoldJob, source: Source, events: pa.Table) -> pa.Table:
    """The events of the windows to build; others are filtered out before the fold."""
    if job.windows is None or source.prepare is not None:  # `prepare` may change event times
        return events
    start, end = (pa.scalar(bound, TIMESTAMP) for bound in job.windows)
    return events.filter((pc.field(source.time_column) >= start) & (pc.field(source.time_column) < end))


def _merge_stored(job: FoldJob, part: StatesFile) -> Iterator[tuple[int, _FoldedStates]]:
    """Send stored states to the buckets."""
    view, place = _definitions(job)[1][part.view], job.views[part.view]
    if part.view in job.added:
        view, place = _stored_measures(job, view), job.added[part.view].there
    for states in stored(view, place, part.path, part.later):
        yield from _sent(job, view, Partial(states), EMPTY, part.side)


def _merge_commits(job: FoldJob, part: Commits) -> Iterator[tuple[int, _FoldedStates]]:
    """Send the partials of micro-batches to the buckets."""
    accumulators = {name: Accumulator(view) for name, view in _definitions(job)[1].items()}
    for path in part.paths:
        with opened(part.table, path, verified=True) as file:
            rows = file.read(["fingerprint", "partial"], use_threads=False)
        partials = dict(zip(rows["fingerprint"].to_pylist(), rows["partial"].to_pylist(), strict=True))
        for name, one in accumulators.items():
            one.add(Partial(from_ipc(partials[part.fingerprints[name]])))
    for one in accumulators.values():
        yield from _sent(job, one.view, one.take(), EMPTY, part.side)


def _merge_bucket(
    job: FoldJob, values: Iterator[_FoldedStates | TaskCounts | Suspects]
) -> Iterator[TaskCounts | Decided | ViewFile | Unlike | KeyComparison]:
    _, views = _definitions(job)
    accumulators = {(name, side): Accumulator(view) for name, view in _folded(job)[1].items() for side in get_args(Side)}
    accumulators |= {(name, "stored"): Accumulator(_stored_measures(job, views[name])) for name in job.added}
    suspects: list[Suspects] = []
    for value in values:
        match value:
            case TaskCounts():
                yield value
            case Suspects():
                suspects.append(value)
            case _:
                accumulators[value.view, value.side].add(Partial(from_ipc(value.states), value.ranges, {}))
    if suspects:
        yield from _count_suspects(job, suspects, {name: accumulators[name, "folded"] for name in views})
    for name, view in views.items():
        sides = {side: _staying(job, name, accumulators[name, side]) for side in {"folded", *chain.from_iterable(job.pairs)}}
        for pair in job.pairs:
            yield KeyComparison(name, pair, compare(view, *(sides[side].states for side in pair)))
        if job.version is None:
            continue
        whole = accumulators[name, "stored"]
        if name in job.added:
            there, new = whole.view, accumulators[name, "folded"].view
            parts = (kernel.settle(there, whole.take().states), kernel.settle(new, sides["folded"].states))
            try:
                states = joined(view, *parts)
            except Apart:
                yield Unlike(name)
                continue
        else:
            whole.add(sides["folded"])
            whole.add(accumulators[name, "beyond"].take())
            states = kernel.settle(view, _staying(job, name, whole).states)
        yield from (ViewFile(name, file) for file in write_states(job.views[name], view, states, job.version))


def _staying(job: FoldJob, view: str, accumulator: Accumulator) -> Partial:
    """What an accumulator holds, without windows that have left the view."""
    taken = accumulator.take()
    return replace(taken, states=staying(taken.states, job.kept_from.get(view)))


def _count_suspects(
    job: FoldJob, suspects: Sequence[Suspects], folded: Mapping[str, Accumulator]
) -> Iterator[TaskCounts | Decided]:
    """Add the states of the suspects that count to those of this bucket; one of the buckets counts them."""
    source, views = _folded(job)
    decided, versions = decide(source, suspects, job.generations), _versions(job)
    bucket, rows = suspects[0].bucket, _SCAN_ROWS if source.prepare is None else _PREPARED_ROWS
    rejected: dict[str, Counter[str]] = {name: Counter() for name in views}
    for start in range(0, decided.events.num_rows, rows):
        prepared = kernel.prepare(source, decided.events.slice(start, rows), job.generations)
        for name, view in views.items():
            one = kernel.partial(view, prepared.events, EMPTY, prepared.failed, versions=versions)
            rejected[name].update(one.rejected)
            for at, states in by_slot(one.states, slot_columns(view), job.buckets):
                if at == bucket:
                    folded[name].add(Partial(states))
    if bucket == _COUNTING:
        events = decided.events
        newest_times = maxima_of(source, events)
        yield TaskCounts(EMPTY, events.num_rows, 0, 0, 0, 0, newest_append(events), rejected, newest_times)
        yield Decided(decided.duplicates, decided.conflicts)


def _sent(job: FoldJob, view: View, one: Partial, ranges: Ranges, side: Side) -> Iterator[tuple[int, _FoldedStates]]:
    """States by bucket: states that share keys or windows go to the same one."""
    if job.windows is not None:
        one = replace(one, states=starting_within(one.states, job.windows))
    for bucket, states in by_slot(one.states, slot_columns(view), job.buckets):
        yield bucket, _FoldedStates(view.name, ranges, to_ipc(states), side)


def _folded(job: FoldJob) -> tuple[Source, dict[str, View]]:
    """The source, and each view with the measures to fold."""
    source, views = _definitions(job)
    return source, {
        name: with_measures(view, job.added[name].measures) if name in job.added else view for name, view in views.items()
    }


def _stored_measures(job: FoldJob, view: View) -> View:
    """The stored measures of a view that gained measures."""
    return with_measures(view, view.measures.keys() - set(job.added[view.name].measures))


def _versions(job: FoldJob) -> dict[str, pa.Table]:
    """What the views look up in."""
    return load_versions(job.scratch, job.versions, project.load_files(job.definitions).views) if job.versions else {}


def _definitions(job: FoldJob) -> tuple[Source, dict[str, View]]:
    found = project.load_files(job.definitions)
    return found.sources[job.source], {name: found.views[name] for name in job.views}
