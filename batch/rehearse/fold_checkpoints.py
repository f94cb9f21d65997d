"""The tasks of `rehearse`: fold each event once, and answer at every checkpoint.

A task that folds makes states of the events that arrived between two checkpoints. An event counts from the later one on; if a
copy that comes before it in the order of the log arrives afterwards, it counts only until then. A task that merges has a bucket
of keys and adds the states of one checkpoint after the other. So all checkpoints together cost one fold of the log, and each a
merge.

A view that looks up in a table is folded again from each checkpoint at which the table has new versions.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from tandem.batch.fold.accumulator import Accumulator
from tandem.batch.fold.lookup_files import load_versions
from tandem.batch.fold.two_versions import Side
from tandem.batch.points.copies import UNTIL
from tandem.batch.points.log_of_part import LogOfPart, events_with_until
from tandem.ledger.delta.location import Location
from tandem.ledger.files.splits import Slice
from tandem.ledger.publish.batch_parts import staying
from tandem.ledger.stored_states import by_bucket
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.composite.current_rows import RowsView
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts
from tandem.views.instant import APPEND_TIME
from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Partial
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.view import View

_COUNTING: Final = 0
"""The bucket to which tasks that fold send their costs."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class AnsweredSide:
    """A view of one release at a checkpoint: its merged states of some keys, and the watermark that labels its windows."""

    view: View
    states: pa.Table
    watermark: int | None


@dataclass(frozen=True)
class AnsweredCheckpoint:
    """Some keys of a view at a checkpoint, by side; a release without the view has no side."""

    number: int
    sides: Mapping[Side, AnsweredSide] = field(hash=False)


@dataclass(frozen=True)
class Cost:
    """What a view of a release cost: events read, seconds of tasks, and bytes of its states at the last checkpoint."""

    side: Side
    events: int = 0
    seconds: float = 0.0
    bytes: int = 0


Compare = Callable[[str, Mapping[Side, Project], Iterator[AnsweredCheckpoint]], Iterable[Result]]
"""What a bucket of keys does with the checkpoints of a view in order, given its name and the definitions of both releases."""


@dataclass(frozen=True)
class RehearsalJob:
    """What a task needs.

    Args:
        definitions: the files of the releases.
        view: the name of the view.
        folded: the sides that are folded. A side that has the view and is not among them has the states of the other.
        logs: by side and part of the view.
        scratch: the location of scratch files.
        checkpoints: in microseconds since 1970.
        watermarks: of the view at each checkpoint, by side.
        kept_from: the start of the first window that has not left the live view.
        buckets: the number of tasks that merge.
        versions: by side, for each checkpoint, scratch files of the versions in which the view looks up; empty without look-ups.
    """

    definitions: Mapping[Side, Mapping[str, bytes]] = field(hash=False)
    view: str
    folded: tuple[Side, ...]
    logs: Mapping[tuple[Side, str], LogOfPart] = field(hash=False)
    scratch: Location
    checkpoints: tuple[int, ...]
    watermarks: Mapping[Side, tuple[int | None, ...]] = field(hash=False)
    kept_from: datetime | None
    buckets: int
    versions: Mapping[Side, tuple[Mapping[str, str], ...]] = field(default_factory=dict, hash=False)

    def projects(self) -> dict[Side, Project]:
        """The definitions of the releases."""
        return {side: project.load_files(files) for side, files in self.definitions.items()}

    def views(self) -> dict[Side, View]:
        """The view of each release that has it."""
        return {side: of.every_view[self.view] for side, of in self.projects().items() if self.view in of.every_view}


@dataclass(frozen=True)
class SidePiece:
    """A slice of the events of a part, or a scratch file of those with copies."""

    side: Side
    part: str
    events: Slice | str


@dataclass(frozen=True)
class _SentStates:
    """States of events that count from the checkpoint `first` on, until before the checkpoint `until`."""

    side: Side
    first: int
    until: int
    states: bytes


def send(job: RehearsalJob, piece: SidePiece) -> Iterator[tuple[int, _SentStates | Cost]]:
    """The states of a piece's events, by the checkpoints that have them, in buckets of keys."""
    began, number = time.perf_counter(), 0
    view = job.views()[piece.side]
    part = next(part for part in parts(root(view)) if part.name == piece.part)
    log, tables = job.logs[piece.side, piece.part], [*_tables(job, piece.side)]
    times, folds = np.array(job.checkpoints, dtype=np.int64), dict[tuple[int, int], Accumulator]()
    for events in events_with_until(part, log, job.scratch, piece.events):
        number += events.num_rows
        first = np.searchsorted(times, events[APPEND_TIME].cast(pa.int64()).to_numpy(), side="left")
        replaced = events[UNTIL.name].fill_null(np.iinfo(np.int64).max).to_numpy()
        spans = np.stack([first, np.searchsorted(times, replaced, side="left")], axis=1)
        for low, high, versions in tables:
            within = np.clip(spans, low, high)
            for start, until in np.unique(within[within[:, 0] < within[:, 1]], axis=0).tolist():
                some = events.filter(pa.array((within == (start, until)).all(axis=1))).drop_columns(UNTIL.name)
                prepared = kernel.prepare(part.source, some, log.generations)
                fold = folds.setdefault((start, until), Accumulator(part))
                fold.add(kernel.partial(part, prepared.events, EMPTY, prepared.failed, versions=versions))
    keys = [] if isinstance(view, RowsView) else list(view.keys)
    for (start, until), fold in folds.items():
        for bucket, states in by_bucket(kernel.roll(view, fold.take().states), keys, job.buckets):
            yield bucket, _SentStates(piece.side, start, until, states)
    yield _COUNTING, Cost(piece.side, number, time.perf_counter() - began)


def _tables(job: RehearsalJob, side: Side) -> Iterator[tuple[int, int, Mapping[str, pa.Table]]]:
    """The versions in which the view looks up, each with the half-open range of checkpoints that have them."""
    views, number = project.load_files(job.definitions[side]).views, 0
    for files, same in groupby(job.versions.get(side) or [{} for _ in job.checkpoints]):
        until = number + len([*same])
        yield number, until, load_versions(job.scratch, files, views)
        number = until


def answer(job: RehearsalJob, compare: Compare[Result], values: Iterator[_SentStates | Cost]) -> Iterator[Result | Cost]:
    """What `compare` returns for a bucket of keys, and what folding and merging cost."""
    sent, costs = list[_SentStates](), list[Cost]()
    for value in values:
        if isinstance(value, Cost):
            costs.append(value)
        else:
            sent.append(value)
    yield from compare(job.view, job.projects(), _checkpoints(job, sent, costs))
    yield from costs


@dataclass(frozen=True)
class StatesAt:
    """Some keys' states of a view at a checkpoint, as Arrow IPC."""

    number: int
    states: bytes


def states_of(side: Side, _: str, __: Mapping[Side, Project], checkpoints: Iterator[AnsweredCheckpoint]) -> Iterator[StatesAt]:
    """The states of one side, to make versions of."""
    return (StatesAt(each.number, to_ipc(each.sides[side].states)) for each in checkpoints)


def _checkpoints(job: RehearsalJob, sent: list[_SentStates], costs: list[Cost]) -> Iterator[AnsweredCheckpoint]:
    views, last = job.views(), len(job.checkpoints)
    so_far = {side: Partial(kernel.merge(views[side], []).states) for side in job.folded}
    for number in range(last):
        states = dict[Side, pa.Table]()
        for side in job.folded:
            began, view = time.perf_counter(), views[side]
            new = [each for each in sent if each.side == side and each.first == number and each.until == last]
            some = [each for each in sent if each.side == side and each.first <= number < each.until < last]
            so_far[side] = _merge(view, so_far[side], new)
            states[side] = staying(kernel.settle(view, _merge(view, so_far[side], some).states), job.kept_from)
            size = states[side].nbytes if number == last - 1 else 0
            costs.append(Cost(side, 0, time.perf_counter() - began, size))
        (either, *_) = job.folded
        yield AnsweredCheckpoint(
            number,
            {
                side: AnsweredSide(view, states.get(side, states[either]), job.watermarks[side][number])
                for side, view in views.items()
                if side in job.watermarks
            },
        )


def _merge(view: View, so_far: Partial, more: list[_SentStates]) -> Partial:
    return kernel.merge(view, [so_far, *(Partial(from_ipc(each.states)) for each in more)]) if more else so_far
