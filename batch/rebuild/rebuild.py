"""Rebuild the batch views of one source below a cut: gather, find duplicates, fold, account."""

from pyspark.sql import SparkSession

from batch.fold import duplicates, fold
from batch.fold.columns import sees_positions
from batch.fold.duplicates import Duplicates
from batch.rebuild.account import BatchViews, account
from batch.rebuild.gather_events import Inputs, gather
from batch.rebuild.inputs import RebuildJob
from batch.runtime.parallelism import buckets
from batch.runtime.session import BatchRun
from ledger.delta.location import Location
from views.errors import TandemError
from views.project import project


class Displaced(TandemError):
    """A new duplicate precedes, in the order of the log, an event that is counted already."""


def rebuild(batch: BatchRun, job: RebuildJob, scratch: Location) -> BatchViews:
    """Write the files of each view's batch version; they join the view's table only when they are committed.

    Raises Displaced if an event below the start would have to be counted differently, TaskFailed, and Unclosed if the tables
    lack rows that the archive's ledger records.
    """
    inputs = gather(batch, job, scratch)
    found = find_duplicates(batch.session, inputs)
    refuse_displaced(job, found)
    folded = fold_events(batch.session, inputs, found)
    return account(inputs, found, folded)


def find_duplicates(session: SparkSession, inputs: Inputs) -> Duplicates:
    """Find the duplicates among the events to fold, and those that repeat an event below the start. Raises TaskFailed."""
    search = duplicates.Search(
        inputs.job.release.files,
        inputs.job.source.name,
        inputs.events.place,
        inputs.scratch,
        inputs.archived.generations,
        inputs.archived.covered if inputs.job.start.offsets else None,
    )
    slices = inputs.slices
    if not slices.searched:
        return Duplicates()
    return duplicates.find(session, search, slices.searched, history=slices.history, parallelism=inputs.parallelism)


def refuse_displaced(job: RebuildJob, found: Duplicates) -> None:
    """Raise Displaced if counting the duplicates that were found would change what was counted below the start."""
    views = project.load_files(job.release.files).views
    if found.contested or (found.displaced and any(sees_positions(views[view]) for view in job.views)):
        raise Displaced(
            f"{found.displaced} counted events have earlier duplicates in another partition of the log, {found.contested} of "
            "them with other contents"
        )


def fold_events(session: SparkSession, inputs: Inputs, found: Duplicates) -> fold.Folded:
    """Fold the events that are not duplicates, merge the stored states, and compare both with what was served. One Spark job."""
    job, slices = inputs.job, inputs.slices
    views = project.load_files(job.release.files).views
    work = fold.Folding(
        job.release.files,
        job.source.name,
        inputs.events.place,
        inputs.tables,
        inputs.scratch,
        found.files,
        job.version,
        buckets=buckets(inputs.rows, [views[view] for view in job.views], parallelism=inputs.parallelism),
        windows=job.windows,
        pairs=job.pairs,
        generations=inputs.archived.generations,
        added=inputs.added,
    )
    return fold.fold(session, work, [*slices.compared, *map(fold.Beyond, slices.beyond), *inputs.merged, *inputs.compared])
