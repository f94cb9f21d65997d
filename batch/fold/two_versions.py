"""Both versions of views, read side by side in Spark tasks: the merged states of all rows of some keys at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, TypeVar

import pyarrow as pa

from tandem.batch.fold.accumulator import Accumulator
from tandem.batch.runtime import spark_jobs
from tandem.batch.runtime.parallelism import buckets, in_log_order
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.location import Location
from tandem.ledger.publish.batch_parts import BatchPart, files_with_later
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.ledger.stored_states import by_bucket, stored
from tandem.views.arrow.arrays import from_ipc
from tandem.views.composite.current_rows import RowsView, of_states
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts
from tandem.views.kernel.kernel import Partial, roll
from tandem.views.project import project
from tandem.views.view import View, state_schema

Side = Literal["old", "new"]
SIDES: Final[tuple[Side, Side]] = ("old", "new")

ReleaseState = tuple[Release, Publication]
"""A release and its newest state, or a candidate for it."""

Versions = Mapping[Side, tuple[View, pa.Table]]
"""By side the view as it defines it, and its merged states of some keys; without a side that has no such view."""

Result = TypeVar("Result")
Compare = Callable[[str, Versions], Result]
"""What a task does for a view, for all rows of some keys."""


@dataclass(frozen=True)
class _Job:
    """What a task needs: the files of the sides' definitions, the views, and how many tasks share the keys."""

    definitions: Mapping[Side, Mapping[str, bytes]] = field(hash=False)
    views: tuple[str, ...]
    buckets: int

    def view(self, side: Side, name: str) -> View | None:
        """One side's definition of a view."""
        definitions = project.load_files(self.definitions[side])
        return definitions.views.get(name) or definitions.every_view.get(name)


@dataclass(frozen=True)
class _StatesFile:
    """A file of a view's states, or of those of its root, without what `later` parts replace.

    A later part may say which windows have left.
    """

    side: Side
    view: str
    part: str
    place: Location
    path: str
    rows: int
    later: tuple[BatchPart, ...]


@dataclass(frozen=True)
class _SomeStates:
    side: Side
    view: str
    states: bytes


def over_keys(
    batch: BatchRun, sides: Mapping[Side, ReleaseState], views: Sequence[str], compare: Compare[Result]
) -> list[tuple[str, Result]]:
    """What `compare` returns for each view and some keys; of all calls for a view no two have a key in common.

    Nothing if no side has a row. Raises TaskFailed, Unreadable.
    """
    definitions = {side: release.files for side, (release, _) in sides.items()}
    job = _Job(definitions, tuple(views), 1)
    files = [file for side, (_, state) in sides.items() for view in views for file in _files(batch, job, side, view, state)]
    if not files:
        return []
    there = [view for side in sides for name in views if (view := job.view(side, name)) is not None]
    rows, ordered = sum(file.rows for file in files), any(map(in_log_order, there))
    job = _Job(definitions, tuple(views), buckets(rows, in_log_order=ordered, parallelism=batch.parallelism))
    return spark_jobs.each_then(batch.session, partial(_read, job), partial(_compare, job, compare), files, job.buckets)


def _files(batch: BatchRun, job: _Job, side: Side, name: str, state: Publication) -> Iterator[_StatesFile]:
    view = job.view(side, name)
    for part in parts(root(view)) if view is not None else ():
        stored_view = state.views.get(part.name)
        if stored_view is None:
            continue
        address = stored_view.address(batch.tables, part.name)
        place = Location.of(batch.tables, address)
        for file, later in files_with_later(batch.tables, address, stored_view.parts):
            yield _StatesFile(side, name, part.name, place, file.path, file.rows, later)


def _read(job: _Job, file: _StatesFile) -> Iterator[tuple[int, _SomeStates]]:
    """The states of a file by bucket: states of equal keys go to the same bucket on both sides."""
    view = job.view(file.side, file.view)
    assert view is not None  # it has this file
    part = next(part for part in parts(root(view)) if part.name == file.part)
    # Rows are made of all rows of a table, whatever their keys.
    keys = [] if isinstance(view, RowsView) else list(view.keys)
    for states in stored(part, file.place, file.path, file.later):
        for bucket, some in by_bucket(roll(view, states), keys, job.buckets):
            yield bucket, _SomeStates(file.side, file.view, some)


def _compare(job: _Job, compare: Compare[Result], values: Iterator[_SomeStates]) -> Iterator[tuple[str, Result]]:
    of = {(side, name): view for side in job.definitions for name in job.views if (view := job.view(side, name)) is not None}
    accumulators = {place: Accumulator(view) for place, view in of.items()}
    for view, accumulator in zip(of.values(), accumulators.values(), strict=True):
        accumulator.add(Partial(pa.Table.from_batches([], state_schema(of_states(view)))))
    for value in values:
        accumulators[value.side, value.view].add(Partial(from_ipc(value.states)))
    merged = {place: accumulator.take().states for place, accumulator in accumulators.items()}
    for name in job.views:
        yield name, compare(name, {side: (of[side, name], merged[side, name]) for side in job.definitions if (side, name) in of})
