"""Fold events into every view of a source in one scan, then merge by key: one Spark job, whatever the number of views.

States of earlier batch versions may be merged with what is folded.

A task folds its slice in bounded pieces and merges as it goes. States travel as Arrow bytes to the bucket of their keys
and window; a bucket merges each view's states and writes them as a file of that view's table. All numbers come from the kernel.
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

# Large pieces: states of one key meet in the fold, and need not be merged after it.
_SCAN_ROWS: Final = 1 << 20
_PREPARED_ROWS: Final = 1 << 16  # An event may become many rows.
_SEND_BYTES: Final = 64 << 20
_TABLE: Final = "batch_states"
_APPEND_TIME: Final = "_append_time"


Side = Literal["folded", "beyond", "stored", "served", "replayed"]
"""Whose states: `folded` and `beyond` are made of the slices, and `stored` are merged with these two; the others are compared."""

Pair = tuple[Side, Side]
"""Two sides to compare: what was answered, then what it is held against."""


@dataclass(frozen=True)
class Added:
    """New measures of a view, whose other states are in the table at `there`."""

    measures: tuple[str, ...]
    there: Location


@dataclass(frozen=True)
class Folding:
    """What a task needs: the release's files, the source and its views, where events, scratch and the views' tables are.

    `dropped` are scratch files of positions that do not count; `version` is that of the batch being built, None where nothing
    is; `buckets` is how many tasks merge. With `windows` only states of windows that start in these bounds are made. `pairs`
    are compared with each other, view by view. `generations` are the ids of the source's topics, the oldest first. Of the views
    in `added` only these measures are folded, and what is stored of them are the states of the others.
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
    """A slice of which nothing was served: it is folded, but no part of any comparison."""

    part: Slice


@dataclass(frozen=True)
class Stored:
    """A file of a view's table, but for those of its states for which `later` parts stand in."""

    view: str
    path: str
    rows: int
    later: tuple[Part, ...] = ()
    side: Side = "stored"


@dataclass(frozen=True)
class Commits:
    """Files of a realtime table, which have partials of views by fingerprint."""

    table: Location
    paths: tuple[str, ...]
    fingerprints: Mapping[str, str] = field(hash=False)
    side: Side = "served"


@dataclass(frozen=True)
class Counted:
    """What was counted over `ranges`: events, those that views rejected by view and reason, the partitions' newest times.

    `further` are the events, dropped ones too, that are not the first of their record, and `ahead` those, dropped ones too,
    that are ahead. `newest` is the newest append time of the events, in microseconds since 1970.
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
    """A view whose new measures have other rows than the other measures: no file has been made of these."""

    view: str


@dataclass(frozen=True)
class Compared:
    """How two sides of a view differ, measure by measure, for some of its keys."""

    view: str
    pair: Pair
    differences: tuple[MeasureDifference, ...]


@dataclass(frozen=True)
class Folded:
    """What all tasks of a fold found: `unlike` are the views of which no file was written, as `Unlike` has it."""

    counted: tuple[Counted, ...]
    built: tuple[Built, ...]
    compared: tuple[Compared, ...]
    unlike: frozenset[str]


@dataclass(frozen=True)
class _States:
    """Some states of a view on their way to a bucket. A task's last ones carry its ranges, earlier ones none."""

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
    needed |= set(position_columns(source)) if drops.places or source.many else set()
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
    """The partition of the ranges if they have but one: then no column has to be read to know it."""
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
    """The events that states are made of: others, if they are many, need not be looked at."""
    if work.windows is None or source.prepare is not None:  # which may move events in time
        return events
    start, end = (pa.scalar(bound, TIMESTAMP) for bound in work.windows)
    return events.filter((pc.field(source.event_time) >= start) & (pc.field(source.event_time) < end))


def _merge_stored(work: Folding, part: Stored) -> Iterator[tuple[int, _States]]:
    """States that are there already, on their way to the buckets."""
    view, place = _definitions(work)[1][part.view], work.views[part.view]
    if part.view in work.added:
        view, place = _there(work, view), work.added[part.view].there
    for states in stored(view, place, part.path, part.later):
        yield from _sent(work, view, Partial(states), EMPTY, part.side)


def _merge_commits(work: Folding, part: Commits) -> Iterator[tuple[int, _States]]:
    """What micro-batches have added to the views, on its way to the buckets."""
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
    """States by bucket: those that may have to do with each other go to the same."""
    if work.windows is not None:
        one = replace(one, states=starting_within(one.states, work.windows))
    for bucket, states in by_bucket(one.states, shared_columns(view), work.buckets):
        yield bucket, _States(view.name, ranges, states, side)


def _folded(work: Folding) -> tuple[Source, dict[str, View]]:
    """The source, and of each view what is folded of it."""
    source, views = _definitions(work)
    return source, {
        name: with_measures(view, work.added[name].measures) if name in work.added else view for name, view in views.items()
    }


def _there(work: Folding, view: View) -> View:
    """What is stored of a view that gained measures."""
    return with_measures(view, view.measures.keys() - set(work.added[view.name].measures))


def _definitions(work: Folding) -> tuple[Source, dict[str, View]]:
    found = project.load_files(work.definitions)
    return found.sources[work.source], {name: found.views[name] for name in work.views}
