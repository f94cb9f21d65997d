"""Fold events into all views of a source in one scan, then merge by key: one Spark job for any number of views.

A task folds its slice in bounded pieces and merges as it reads. It sends states as Arrow bytes to the bucket of their keys and
window. A bucket merges each view's states, also with states of earlier batch versions, and writes them as a file of that view's
table. The kernel computes all numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from batch.fold.accumulator import Accumulator
from batch.fold.columns import columns
from batch.fold.dropped_positions import read_drops
from batch.runtime import spark_jobs
from batch.runtime.file_ranges import EVENTS
from batch.runtime.parquet_writer import TableFile, Written
from batch.runtime.scan import scan
from batch.runtime.splits import Slice
from ledger.delta.location import Location
from ledger.delta.stored_file import opened
from ledger.publish.batch_parts import Part, Windows, starting_within
from ledger.stored_states import by_bucket, stored
from views.arrow.ipc import from_ipc
from views.fingerprint.additive import Apart, joined, with_measures
from views.kernel import kernel
from views.kernel.kernel import Partial
from views.project import project
from views.source.ahead import not_ahead
from views.source.event import TIMESTAMP
from views.source.log_order import further
from views.source.offset_ranges import EMPTY, Partition, Ranges
from views.source.source import Source, position_columns
from views.source.watermark import Maxima, Newest, maxima_of, newest, newest_append
from views.verify.compare import MeasureDifference, compare
from views.view import View, shared_columns, state_schema
from views.windows import WINDOW_COLUMNS

VERSION: Final = "batch_version"

# Large pieces: states of one key are merged within the fold, not after it.
_SCAN_ROWS: Final = 1 << 20
_PREPARED_ROWS: Final = 1 << 16  # An event may become many rows.
_SEND_BYTES: Final = 64 << 20
_TABLE: Final = "batch_states"
_APPEND_TIME: Final = "_append_time"


Side = Literal["folded", "beyond", "stored", "served", "replayed"]
"""The origin of states: `folded` and `beyond` come from slices, `stored` are merged with these two; the others are compared."""

Pair = tuple[Side, Side]
"""Two sides to compare: the answered one, then the one to check it with."""


@dataclass(frozen=True)
class Added:
    """New measures of a view; the states of its other measures are in the table at `there`."""

    measures: tuple[str, ...]
    there: Location


@dataclass(frozen=True)
class Folding:
    """What a task needs.

    Args:
        definitions: the release's files.
        source: the name of the source.
        events: the location of the events.
        views: the locations of the views' tables, by view.
        scratch: the location of files that tasks leave for each other.
        dropped: scratch files with the positions of duplicates.
        version: the batch version to write; None writes nothing.
        buckets: the number of tasks that merge.
        windows: fold only windows that start within these bounds.
        pairs: the sides to compare, view by view.
        generations: the ids of the source's topics, the oldest first.
        added: views of which only these measures are folded; their stored states are those of the other measures.
    """

    definitions: Mapping[str, bytes] = field(hash=False)
    source: str
    events: Location
    views: Mapping[str, Location] = field(hash=False)
    scratch: Location
    dropped: tuple[str, ...]
    version: int | None
    buckets: int
    windows: Windows | None = None
    pairs: tuple[Pair, ...] = ()
    generations: tuple[str, ...] = ()
    added: Mapping[str, Added] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Beyond:
    """A slice that was never served: it is folded, but not compared."""

    part: Slice


@dataclass(frozen=True)
class Stored:
    """A file of a view's table, without the states that `later` parts replace."""

    view: str
    path: str
    rows: int
    later: tuple[Part, ...] = ()
    side: Side = "stored"


@dataclass(frozen=True)
class Commits:
    """Files of a realtime table, with partials of views by fingerprint."""

    table: Location
    paths: tuple[str, ...]
    fingerprints: Mapping[str, str] = field(hash=False)
    side: Side = "served"


@dataclass(frozen=True)
class Counted:
    """What a task counted over `ranges`.

    Args:
        events: events that are not duplicates.
        further: events, duplicates included, that are not the first of their record.
        ahead: events, duplicates included, that are ahead of their record's timestamp.
        newest: the newest append time of the events, in microseconds since 1970.
        rejected: by view and reason.
        maxima: the partitions' newest times.
    """

    ranges: Ranges
    events: int
    further: int
    ahead: int
    newest: int | None
    rejected: Mapping[str, Mapping[str, int]] = field(hash=False)
    maxima: Maxima = field(hash=False)


@dataclass(frozen=True)
class Built:
    """A finished file of a view's table."""

    view: str
    file: Written


@dataclass(frozen=True)
class Unlike:
    """A view whose new measures have other rows than its other measures: no file was written."""

    view: str


@dataclass(frozen=True)
class Compared:
    """How two sides of a view differ, measure by measure, for some of its keys."""

    view: str
    pair: Pair
    differences: tuple[MeasureDifference, ...]


@dataclass(frozen=True)
class Folded:
    """The results of all tasks of a fold; `unlike` are the views that `Unlike` describes."""

    counted: tuple[Counted, ...]
    built: tuple[Built, ...]
    compared: tuple[Compared, ...]
    unlike: frozenset[str]


@dataclass(frozen=True)
class _States:
    """States of a view, sent to a bucket. A task's last ones carry its ranges, earlier ones none."""

    view: str
    ranges: Ranges
    states: bytes
    side: Side


def fold(session: SparkSession, work: Folding, items: Sequence[Slice | Beyond | Stored | Commits]) -> Folded:
    """Fold slices and read states, one task each, and write the views' files. Commits nothing. Raises TaskFailed."""
    results = spark_jobs.each_then(session, partial(_fold, work), partial(_build, work), items, work.buckets + 1)
    return Folded(
        counted=tuple(one for one in results if isinstance(one, Counted)),
        built=tuple(one for one in results if isinstance(one, Built)),
        compared=tuple(one for one in results if isinstance(one, Compared)),
        unlike=frozenset(one.view for one in results if isinstance(one, Unlike)),
    )


def _fold(work: Folding, part: Slice | Beyond | Stored | Commits) -> Iterator[tuple[int, _States | Counted]]:
    match part:
        case Slice():
            yield from _fold_slice(work, part, "folded")
        case Beyond():
            yield from _fold_slice(work, part.part, "beyond")
        case Stored():
            yield from _merge_stored(work, part)
        case Commits():
            yield from _merge_commits(work, part)


def _fold_slice(work: Folding, part: Slice, side: Side) -> Iterator[tuple[int, _States | Counted]]:
    source, views = _folded(work)
    drops = read_drops(work.scratch, work.dropped, part.ranges)
    needed = {*(column for view in views.values() for column in columns(view)), _APPEND_TIME, source.event_time}
    needed |= set() if _alone(part.ranges) else {EVENTS.topic, EVENTS.partition}
    needed |= set(position_columns(source)) if drops.places or source.max_events_per_record else set()
    held = {name: Accumulator(view) for name, view in views.items()}
    count, beside, early, stamps, maxima = 0, 0, 0, list[int](), list[Maxima]()
    rows = _SCAN_ROWS if source.prepare is None else _PREPARED_ROWS
    for scanned in scan(work.events, part, EVENTS, sorted(needed), rows=rows):
        beside += further(scanned)
        early += int(kernel.ahead(source, scanned).sum())
        events = drops.keep(scanned)
        count += events.num_rows
        maxima.append(_maxima(source, events, part.ranges))
        stamps += [] if (stamp := newest_append(events)) is None else [stamp]
        prepared = kernel.prepare(source, _of_windows(work, source, events), work.generations)
        for one in held.values():
            one.add(kernel.partial(one.view, prepared.events, EMPTY, prepared.failed))
            if one.bytes > _SEND_BYTES:
                yield from _sent(work, one.view, one.take(), EMPTY, side)
    rejected = {}
    for name, one in held.items():
        yield from _sent(work, one.view, one.take(), part.ranges, side)
        rejected[name] = one.rejected
    yield work.buckets, Counted(part.ranges, count, beside, early, max(stamps, default=None), rejected, newest(maxima))


def _alone(ranges: Ranges) -> Partition | None:
    """The partition of the ranges if there is only one: then no column has to be read for it."""
    return ranges.intervals[0][0] if len(ranges.intervals) == 1 else None


def _maxima(source: Source, events: pa.Table, ranges: Ranges) -> Maxima:
    partition = _alone(ranges)
    if partition is None:
        return maxima_of(source, events)
    events = not_ahead(source, events)
    if not events.num_rows:
        return {}
    return {partition: Newest(*(pc.max(events[name].cast(pa.int64())).as_py() for name in (source.event_time, _APPEND_TIME)))}


def _of_windows(work: Folding, source: Source, events: pa.Table) -> pa.Table:
    """The events of the windows to build; others are filtered out before the fold."""
    if work.windows is None or source.prepare is not None:  # `prepare` may change event times
        return events
    start, end = (pa.scalar(bound, TIMESTAMP) for bound in work.windows)
    return events.filter((pc.field(source.event_time) >= start) & (pc.field(source.event_time) < end))


def _merge_stored(work: Folding, part: Stored) -> Iterator[tuple[int, _States]]:
    """Send stored states to the buckets."""
    view, place = _definitions(work)[1][part.view], work.views[part.view]
    if part.view in work.added:
        view, place = _there(work, view), work.added[part.view].there
    for states in stored(view, place, part.path, part.later):
        yield from _sent(work, view, Partial(states), EMPTY, part.side)


def _merge_commits(work: Folding, part: Commits) -> Iterator[tuple[int, _States]]:
    """Send the partials of micro-batches to the buckets."""
    held = {name: Accumulator(view) for name, view in _definitions(work)[1].items()}
    for path in part.paths:
        with opened(part.table, path, verified=True) as file:
            rows = file.read(["fingerprint", "partial"], use_threads=False)
        partials = dict(zip(rows["fingerprint"].to_pylist(), rows["partial"].to_pylist(), strict=True))
        for name, one in held.items():
            one.add(Partial(from_ipc(partials[part.fingerprints[name]])))
    for one in held.values():
        yield from _sent(work, one.view, one.take(), EMPTY, part.side)


def _build(work: Folding, values: Iterator[_States | Counted]) -> Iterator[Counted | Built | Unlike | Compared]:
    _, views = _definitions(work)
    held = {(name, side): Accumulator(view) for name, view in _folded(work)[1].items() for side in get_args(Side)}
    held |= {(name, "stored"): Accumulator(_there(work, views[name])) for name in work.added}
    for value in values:
        if isinstance(value, Counted):
            yield value
        else:
            held[value.view, value.side].add(Partial(from_ipc(value.states), value.ranges, {}))
    for name, view in views.items():
        sides = {side: held[name, side].take() for side in {"folded", *chain.from_iterable(work.pairs)}}
        for pair in work.pairs:
            yield Compared(name, pair, compare(view, *(sides[side].states for side in pair)))
        if work.version is None:
            continue
        whole = held[name, "stored"]
        if name in work.added:
            there, new = whole.view, held[name, "folded"].view
            parts = (kernel.settle(there, whole.take().states), kernel.settle(new, sides["folded"].states))
            try:
                states = joined(view, *parts)
            except Apart:
                yield Unlike(name)
                continue
        else:
            whole.add(sides["folded"])
            whole.add(held[name, "beyond"].take())
            states = kernel.settle(view, whole.take().states)
        file = TableFile(work.views[name], state_schema(view), WINDOW_COLUMNS, {VERSION: str(work.version)})
        with file:
            file.write(states)
        if file.written is not None:
            yield Built(name, file.written)


def _sent(work: Folding, view: View, one: Partial, ranges: Ranges, side: Side) -> Iterator[tuple[int, _States]]:
    """States by bucket: states that share keys or windows go to the same one."""
    if work.windows is not None:
        one = replace(one, states=starting_within(one.states, work.windows))
    for bucket, states in by_bucket(one.states, shared_columns(view), work.buckets):
        yield bucket, _States(view.name, ranges, states, side)


def _folded(work: Folding) -> tuple[Source, dict[str, View]]:
    """The source, and each view with the measures to fold."""
    source, views = _definitions(work)
    return source, {
        name: with_measures(view, work.added[name].measures) if name in work.added else view for name, view in views.items()
    }


def _there(work: Folding, view: View) -> View:
    """The stored measures of a view that gained measures."""
    return with_measures(view, view.measures.keys() - set(work.added[view.name].measures))


def _definitions(work: Folding) -> tuple[Source, dict[str, View]]:
    found = project.load_files(work.definitions)
    return found.sources[work.source], {name: found.views[name] for name in work.views}
