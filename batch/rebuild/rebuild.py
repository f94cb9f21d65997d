"""Rebuild the batch views of one source below a cut: gather, find duplicates, fold, account."""

from collections.abc import Mapping

from tandem.batch.fold import duplicates, fold, fold_job
from tandem.batch.fold.duplicates import RepeatedHashes
from tandem.batch.rebuild.account import BatchViews, account
from tandem.batch.rebuild.gather_events import EventFiles, gather_events
from tandem.batch.rebuild.gather_states import StateFiles, gather_states
from tandem.batch.rebuild.inputs import Comparison, LogRange, ViewTarget
from tandem.batch.runtime.parallelism import buckets
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.location import Location
from tandem.views.errors import TandemError


class Displaced(TandemError, code="counted-event-displaced"):
    """A new duplicate precedes, in the order of the log, an event that is counted already.

    Args:
        views: the views whose states below the start are affected.
        duplicates: what the search found, for a rebuild of the other views.
    """

    def __init__(self, message: str, views: frozenset[str] = frozenset(), duplicates: RepeatedHashes | None = None) -> None:
        super().__init__(message)
        self.views = views
        self.duplicates = duplicates


def rebuild(
    batch: BatchRun,
    log: LogRange,
    targets: Mapping[str, ViewTarget],
    comparison: Comparison,
    *,
    version: int | None,
    scratch: Location,
    searched: RepeatedHashes | None = None,
) -> BatchViews:
    """Write the files of each view's batch version; they join the view's table only when they are committed.

    Raises Displaced if an event below the start would have to be counted differently, TaskFailed, Unreadable, and Unclosed if the
    tables lack rows that the archive's ledger records.

    Args:
        targets: the views to build, by name.
        comparison: the states to compare the folded ones with.
        version: the batch version to write; None compares only, and writes nothing.
        scratch: where tasks leave files for each other.
        searched: the duplicates in the range, if they were searched for in this run already.
    """
    files = gather_events(batch, log, comparison.end(log.cut), scratch)
    states = gather_states(batch.tables, targets, comparison)
    repeated = find_duplicates(batch, files, scratch) if searched is None else searched
    refuse_displaced(repeated, targets)
    folded = fold_events(batch, files, states, repeated, version=version, scratch=scratch)
    return account(files, states, repeated, folded)


def find_duplicates(batch: BatchRun, files: EventFiles, scratch: Location) -> RepeatedHashes:
    """Find the duplicates among the events to fold, and those that repeat an event below the start.

    If exactly the searched events are folded, few suspects are left to the fold: it reads them anyway. Raises TaskFailed,
    Unreadable.
    """
    log, archived, slices = files.log, files.archived, files.slices
    if not slices.searched:
        return RepeatedHashes()
    search = duplicates.Search(
        log.release.files,
        log.source.name,
        files.events.place,
        scratch,
        archived.generations,
        archived.covered if log.start.offsets else None,
    )
    return duplicates.find(
        batch.session,
        search,
        slices.searched,
        history=slices.history,
        parallelism=batch.parallelism,
        undecided=log.windows is None and not log.start.offsets and not slices.beyond,
    )


def refuse_displaced(found: RepeatedHashes, targets: Mapping[str, ViewTarget]) -> None:
    """Raise Displaced if counting the duplicates that were found would change what was counted below the start.

    Equal duplicates change only views that see positions; duplicates with other contents may change every view.
    """
    if not found.displaced:
        return
    if views := frozenset(name for name, target in targets.items() if found.contested or target.sees_positions):
        raise Displaced(
            f"{found.displaced} counted events have earlier duplicates in another partition of the log, {found.contested} of "
            "them with other contents",
            views,
            found,
        )


def fold_events(
    batch: BatchRun, files: EventFiles, states: StateFiles, found: RepeatedHashes, *, version: int | None, scratch: Location
) -> fold_job.FoldResult:
    """Fold the events that are not duplicates, merge the stored states, and compare both with earlier states. One Spark job."""
    log, slices = files.log, files.slices
    rows = slices.rows + states.merged_rows
    job = fold_job.FoldJob(
        log.release.files,
        log.source.name,
        files.events.place,
        states.tables,
        scratch,
        found.files,
        version,
        buckets=buckets(rows, in_log_order=states.in_log_order, parallelism=batch.parallelism),
        windows=log.windows,
        pairs=states.pairs,
        generations=files.archived.generations,
        added=states.added,
        suspects=found.suspects,
        kept_from=states.kept_from,
        versions=log.versions,
    )
    items = [*slices.compared, *map(fold_job.Beyond, slices.beyond), *states.merged, *states.compared]
    return fold.fold(batch.session, job, items)
