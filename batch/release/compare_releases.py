"""Compare the answers of two releases below the same cut, view by view, over all keys."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Final, Literal

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
from tandem.views.kernel.kernel import Partial
from tandem.views.project import project
from tandem.views.verify.release_diff import Diff, add, diff
from tandem.views.view import View

_TABLE: Final = "states"
_Side = Literal["old", "new"]


@dataclass(frozen=True)
class _DiffJob:
    """What a task needs: both releases' files, the views to compare, and the locations of their tables."""

    definitions: Mapping[_Side, Mapping[str, bytes]] = field(hash=False)
    views: tuple[str, ...]
    places: Mapping[tuple[_Side, str], Location] = field(hash=False)
    buckets: int

    def view(self, side: _Side, name: str) -> View:
        """One side's definition of a view."""
        return project.load_files(self.definitions[side]).views[name]


@dataclass(frozen=True)
class _StatesFile:
    """A file of a view's table, without the states that `later` parts replace."""

    side: _Side
    view: str
    path: str
    rows: int
    later: tuple[BatchPart, ...]


@dataclass(frozen=True)
class _ReleaseStates:
    side: _Side
    view: str
    states: bytes


Standing = tuple[Release, Publication]
"""A release and its newest state."""


def diffs(batch: BatchRun, old: Standing, new: Standing, views: Sequence[str]) -> dict[str, Diff]:
    """The diffs of views that both releases have; both states have the same cut. Raises TaskFailed, Unreadable."""
    sides: dict[_Side, Standing] = {"old": old, "new": new}
    files = [file for side, pair in sides.items() for view in views for file in _files(batch, side, view, pair[1])]
    places = {
        (side, view): Location.of(batch.tables, state.views[view].address(batch.tables, view))
        for side, (_, state) in sides.items()
        for view in views
    }
    definitions = {side: release.files for side, (release, _) in sides.items()}
    known = [project.load_files(definition).views[view] for definition in definitions.values() for view in views]
    rows = sum(file.rows for file in files)
    of = buckets(rows, in_log_order=any(map(in_log_order, known)), parallelism=batch.parallelism) if files else 1
    job = _DiffJob(definitions, tuple(views), places, of)
    found = spark_jobs.each_then(batch.session, partial(_read, job), partial(_compare, job), files, job.buckets)
    return {view: reduce(add, (one for name, one in found if name == view), Diff()) for view in views}


def _files(batch: BatchRun, side: _Side, view: str, state: Publication) -> Iterator[_StatesFile]:
    files = files_with_later(batch.tables, state.views[view].address(batch.tables, view), state.views[view].parts)
    yield from (_StatesFile(side, view, file.path, file.rows, later) for file, later in files)


def _read(job: _DiffJob, file: _StatesFile) -> Iterator[tuple[int, _ReleaseStates]]:
    """The states of a file by bucket: states of equal keys go to the same bucket on both sides."""
    view = job.view(file.side, file.view)
    for states in stored(view, job.places[file.side, file.view], file.path, file.later):
        for bucket, some in by_bucket(states, list(view.keys), job.buckets):
            yield bucket, _ReleaseStates(file.side, file.view, some)


def _compare(job: _DiffJob, values: Iterator[_ReleaseStates]) -> Iterator[tuple[str, Diff]]:
    sides: tuple[_Side, _Side] = ("old", "new")
    accumulators = {(side, name): Accumulator(job.view(side, name)) for side in sides for name in job.views}
    for value in values:
        accumulators[value.side, value.view].add(Partial(from_ipc(value.states)))
    for name in job.views:
        old, new = (job.view(side, name) for side in sides)
        yield name, diff(old, new, *(accumulators[side, name].take().states for side in sides))
