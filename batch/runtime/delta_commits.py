"""Commit files that tasks wrote to a Delta table: one conditional commit, looked up after an error."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction

from batch.runtime.parquet_writer import Written
from ledger.delta import delta_tables
from ledger.delta.addresses import Tables

_HOOKS: Final = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def make_table(
    tables: Tables, address: str, schema: pa.Schema, *, partition_by: str | None = None, bounded: Iterable[str] = ()
) -> DeltaTable:
    """The table, created empty if it does not exist. `bounded` are the columns whose bounds every writer records in the log."""
    settings = {"delta.checkpointInterval": "50", "delta.dataSkippingStatsColumns": ",".join(bounded)}
    return delta_tables.create_table(tables, address, schema, settings, partition_by=partition_by)


def add_files(handle: DeltaTable, files: Iterable[Written], *, transaction: tuple[str, int] | None = None) -> None:
    """Add the files to the table. `transaction` is an application id and version, stored in the same commit.

    A transaction that the table already has is not repeated. Raises Conflict if the handle is not newest, else Unwritable; then
    nothing was added.
    """
    if _has(handle, transaction):
        return
    written = list(files)
    try:
        with delta_tables.committing(handle):
            handle.create_write_transaction(
                [file.add_action() for file in written],
                "append",
                handle.schema(),
                partition_by=handle.metadata().partition_columns,
                commit_properties=CommitProperties(
                    max_commit_retries=0, app_transactions=[Transaction(*transaction)] if transaction else None
                ),
                post_commithook_properties=_HOOKS,
            )
    except (delta_tables.Conflict, delta_tables.Unwritable):
        # A commit that landed can end in either: a client that repeats a put whose answer was lost finds its own commit.
        delta_tables.refresh(handle)
        if _has(handle, transaction) or (written and {file.path for file in written} <= delta_tables.files(handle).keys()):
            return
        raise


def _has(handle: DeltaTable, transaction: tuple[str, int] | None) -> bool:
    return transaction is not None and (handle.transaction_version(transaction[0]) or 0) >= transaction[1]
