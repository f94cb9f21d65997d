"""Gather what a rebuild reads: nothing after it asks a table or the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from batch.fold import fold
from batch.rebuild.events import Events, decoded_events, stored_events
from batch.rebuild.gather_states import merged_files, replayed_files, served_files
from batch.rebuild.inputs import RebuildJob
from batch.rebuild.split import Split, split
from batch.runtime.session import BatchRun
from ledger.delta.location import Location
from ledger.log.archived_range import ArchivedRange, archived_range


@dataclass(frozen=True)
class Inputs:
    """What the tasks of a rebuild read.

    Args:
        archived: what the archive's ledger records of `[start, cut)`.
        events: the files of the events.
        slices: the parts of the log that the tasks read.
        parallelism: how many tasks run at once.
        tables: where the files of each view are written.
        added: of each view that gained measures, these and where its other states are.
        merged: files of states that are merged with what is folded.
        compared: files of states that are compared with it.
        scratch: where tasks leave files for each other.
    """

    job: RebuildJob
    archived: ArchivedRange
    events: Events
    slices: Split
    parallelism: int
    tables: Mapping[str, Location] = field(hash=False)
    added: Mapping[str, fold.Added] = field(hash=False)
    merged: tuple[fold.Stored, ...]
    compared: tuple[fold.Stored | fold.Commits, ...]
    scratch: Location

    @property
    def rows(self) -> int:
        """About how many events are folded and states merged."""
        return self.slices.rows + sum(file.rows for file in self.merged)


def gather(batch: BatchRun, job: RebuildJob, scratch: Location) -> Inputs:
    """Read the ledger and list the files. A raw job first decodes the archive, which is a Spark job.

    Raises TaskFailed, Unreadable, and Unclosed if a replay does not reach the cut.
    """
    tables = batch.tables
    archived = archived_range(tables, job.source.name, job.decoder, job.start, job.cut)
    covered = archived.covered
    events = decoded_events(batch, job, covered, scratch) if job.raw else stored_events(tables, job, covered)
    return Inputs(
        job,
        archived,
        events,
        split(job, archived, events, parallelism=batch.parallelism, task_mb=batch.settings.batch.task_mb),
        batch.parallelism,
        tables={view: Location.of(tables, job.batch_view(view).address(tables, view)) for view in job.views},
        added={
            view: fold.Added(gained.measures, Location.of(tables, gained.there.address(tables, view)))
            for view, gained in job.gained.items()
        },
        merged=tuple(merged_files(tables, job)),
        compared=(*served_files(tables, job), *replayed_files(job)),
        scratch=scratch,
    )
