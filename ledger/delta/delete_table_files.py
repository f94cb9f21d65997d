"""Delete files of Delta tables from the disk. Only dropped tables go elsewhere (batch/runtime/scratch.py).

Who may delete
    Only the owner of a table, which is its one writer: the speed layer for a realtime table, fenced by the epoch
    (speed/micro_batch/maintenance.py), and `tandem maintain` for all other tables and for realtime tables of releases that
    are gone, under the locks of archive and recompute (batch/maintain). `tandem forget` removes commits of a realtime table below
    the live cut, too: as everyone's, its commit is conditional on the version, so the speed layer tries again after it.

In what order
    First a commit removes a file from its table, because no retained publication needs it (ledger/publish/standing.py:
    `Followed.retained`) or other files hold its rows. Hours later `vacuum` deletes it from the disk, so that a reader of an
    older version can finish. A whole table is dropped by one rename: its folder moves to the scratch folder. An object store
    renames nothing, so there its files are deleted one after another (batch/runtime/scratch.py).

What may no longer be committed
    A deletion is not a commit: whoever was paused between its list of files and their deletion cannot be refused. So the list is
    followed by a commit, which is conditional on the version in which no listed file is active. A writer that wrote one of the
    files had read an earlier version, or had claimed the table (ledger/delta/one_writer/refuse_other_writers.py). Its commit
    fails then, and no commit names a deleted file.

What is never deleted
    Rows of the archive, of publications and of other journals. Their small files become larger ones with the same rows. There are
    two exceptions:

    * A record that `tandem forget` erases, with all files that had it and without hours of grace (batch/erase/erase.py), under
      the locks of archive and recompute.
    * An archive run that is not checked yet: if a topic was deleted while the run copied it, the run's rows of that topic are
      removed and named as a gap (batch/archive/write_archive.py), because they may be another topic's of the same name.
"""

from dataclasses import dataclass

from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.errors import FAILURES, Conflict, Unwritable, reason
from tandem.ledger.delta.one_writer.refuse_other_writers import HeldLease


@dataclass(frozen=True)
class Freed:
    """How many files were deleted from the disk, and their bytes."""

    files: int = 0
    bytes: int = 0


def vacuum(handle: DeltaTable, *, hours: int, lease: HeldLease | None = None) -> Freed:
    """Delete the data files that no version has needed for this many hours, and those that no commit names.

    For the table's owner, who knows that nobody reads an older version by then. If there are such files, an empty commit fences
    their writers first. Deletes nothing if others commit meanwhile: the next vacuum does. Raises Fenced, Unwritable.
    """
    try:
        old = handle.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False, full=True)
        files = delta_tables.storage(handle)
        # The log remembers files for longer than they exist.
        there = [head for path in old if (head := files.head(path)) is not None]
        if not there:
            return Freed()
        delta_tables.commit_actions(handle, [], lease=lease)
        files.delete(head.name for head in there)
    except Conflict:
        return Freed()
    except FAILURES as error:
        raise Unwritable(f"cannot delete old files of table {handle.table_uri}: {reason(error)}") from error
    return Freed(len(there), sum(head.size for head in there))


def checkpoint(handle: DeltaTable) -> None:
    """Write a checkpoint, and delete log entries before it that are older than the table's retention.

    For the table's owner: a reader that was away for longer opens the table again. Raises Unwritable.
    """
    try:
        handle.create_checkpoint()
        handle.cleanup_metadata()
    except FAILURES as error:
        raise Unwritable(f"cannot write a checkpoint of table {handle.table_uri}: {reason(error)}") from error
