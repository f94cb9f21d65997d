"""Commit files that tasks wrote to a Delta table: one conditional commit, looked up after an error.

On an object store the writer of a table claims it before its tasks write files, and each commit carries the writer's token
(ledger/delta/one_writer/refuse_other_writers.py).
"""

from collections.abc import Iterable

import pyarrow as pa
from deltalake import DeltaTable

from tandem.batch.runtime.parquet_writer import Written
from tandem.ledger.delta import delta_tables, retries
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Conflict, Unwritable, Vanished
from tandem.ledger.delta.one_writer import refuse_other_writers
from tandem.ledger.delta.one_writer.refuse_other_writers import HeldLease


def make_table(
    tables: Tables, address: str, schema: pa.Schema, *, partition_by: str | None = None, bounded: Iterable[str] = ()
) -> DeltaTable:
    """The table, created empty if it does not exist, and claimed for this process. Call it before files of it are written.

    `bounded` are the columns whose bounds every writer records in the log. Raises Unwritable, Fenced, LeaseLost.
    """
    settings = {"delta.checkpointInterval": "50", "delta.dataSkippingStatsColumns": ",".join(bounded)}
    lease = tables.lease(address)
    return retries.claim(delta_tables.create_table(tables, address, schema, settings, partition_by=partition_by), lease)


def add_files(
    handle: DeltaTable, files: Iterable[Written], *, lease: HeldLease | None = None, transaction: tuple[str, int] | None = None
) -> None:
    """Add the files to the table. `transaction` is an application id and version, stored in the same commit.

    A transaction that the table already has is not repeated. Raises Fenced or Unclaimed unless the table's token is that of
    `lease`, Vanished if a file is missing, Conflict if the handle is not newest, else Unwritable; then nothing was added.
    """
    # Before any look at what the table has: of a fenced process's transaction another one may have written other rows.
    refuse_other_writers.refuse_unclaimed(handle, lease)
    if _has(handle, transaction):
        return
    written = list(files)
    _refuse_missing(handle, written, lease)
    try:
        delta_tables.commit_actions(
            handle,
            [file.add_action() for file in written],
            lease=lease,
            transactions=dict([transaction]) if transaction else None,
        )
    except (Conflict, Unwritable):
        # A commit that landed can end in either: a client that repeats a put whose answer was lost finds its own commit.
        delta_tables.refresh(handle)
        refuse_other_writers.refuse_unclaimed(handle, lease)
        if _has(handle, transaction) or (written and {file.path for file in written} <= delta_tables.files(handle).keys()):
            return
        raise


def _has(handle: DeltaTable, transaction: tuple[str, int] | None) -> bool:
    return transaction is not None and (handle.transaction_version(transaction[0]) or 0) >= transaction[1]


def _refuse_missing(handle: DeltaTable, written: Iterable[Written], lease: HeldLease | None) -> None:
    files = delta_tables.storage(handle)
    for file in written:
        head = files.head(file.path)
        if head is None or head.size != file.size:
            refuse_other_writers.refuse_unclaimed(
                delta_tables.reopen(handle), lease
            )  # who deletes files has claimed the table before
            raise Vanished(
                f"file {file.path} of table {handle.table_uri} was deleted or replaced before its commit; nothing was committed; "
                "run the command again"
            )
