"""Delta tables through delta-rs: open, create, read whole files, append on a condition, replace files on a condition.

All tables keep the plain protocol (reader 1, writer 2), so any Delta reader opens them, and no commit expires log entries by
itself. A *handle* is a DeltaTable at the version that was read; a conditional commit succeeds only if that is still the newest
version (`max_commit_retries=0`: delta-rs would otherwise silently rebase a stale append).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake._internal import RemoveAction  # the package exports only its other half, AddAction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from deltalake.writer.properties import ColumnProperties

from tandem.infra.storage.resolve import storage_at
from tandem.infra.storage.storage import Storage
from tandem.ledger.delta import state_format
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import FAILURES, Conflict, Unreadable, Unwritable, Vanished, reason, unreadable
from tandem.ledger.delta.one_writer import refuse_other_writers
from tandem.ledger.delta.one_writer.refuse_other_writers import HeldLease
from tandem.views.arrow.python_values import do_without_pandas

T = TypeVar("T")
PLAIN: Final = {
    # Positions are columns, yet history is kept too: only the table's owner expires log entries, explicitly.
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 36500 days",
}

_ONCE: Final = CommitProperties(max_commit_retries=0)
_HOOKS: Final = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
# One file of a few rows per commit: a dictionary costs more than it saves.
_SMALL: Final = WriterProperties(
    compression="ZSTD",
    compression_level=1,
    default_column_properties=ColumnProperties(dictionary_enabled=False),
)


_LOOKS: Final = 3
_ATTEMPTS: Final = 3
"""Of a commit that the store refuses although nobody made another: S3 answers 409 while another request with the name is in
flight, and delta-rs takes that for a conflict.
"""


def open_table(tables: Tables, address: str) -> DeltaTable | None:
    """The table at its newest version; None if it does not exist. Raises Unreadable, and OtherStateFormat for a journal."""
    do_without_pandas()  # delta-rs's conversion to Arrow would import it
    try:
        handle = _listed(lambda: DeltaTable(address, storage_options=dict(tables.options)))
    except TableNotFoundError:
        return None
    except FAILURES as error:
        unreadable(address, error)
    if address.startswith(f"{tables.control()}/"):
        state_format.check(tables.root, handle.metadata().description)
    return handle


def create_table(
    tables: Tables, address: str, schema: pa.Schema, settings: Mapping[str, str], *, partition_by: str | None = None
) -> DeltaTable:
    """The table at its newest version, created empty if it does not exist. Safe against other creators. Raises Unwritable,
    Unreadable.
    """
    if (handle := open_table(tables, address)) is not None:
        return handle
    tables.make_root()
    for left in reversed(range(_ATTEMPTS)):
        try:
            DeltaTable.create(
                address,
                schema,
                description=state_format.DESCRIPTION,
                partition_by=[partition_by] if partition_by else None,
                storage_options=dict(tables.options),
                configuration={**PLAIN, **settings},
                commit_properties=_ONCE,
            )
        except FAILURES as error:
            if (handle := open_table(tables, address)) is not None:
                return handle
            if not left or not isinstance(error, DeltaError):
                raise Unwritable(f"cannot create table {address}: {reason(error)}") from error
        else:
            break
    handle = open_table(tables, address)
    if handle is None:
        raise Unreadable(f"table {address} disappeared after its creation; check whether another program deletes its folder")
    return handle


def refresh(handle: DeltaTable) -> DeltaTable:
    """Update the handle to the newest version, from a checkpoint if the entries in between have expired. Raises Unreadable."""
    try:
        _listed(handle.update_incremental)
    except FAILURES as error:
        unreadable(handle.table_uri, error)
    return handle


def reopen(handle: DeltaTable) -> DeltaTable:
    """A new handle of the same table at its newest version. Raises Unreadable, also if the table is gone."""
    try:
        return _listed(lambda: DeltaTable(handle.table_uri, storage_options=_options(handle)))
    except FAILURES as error:
        unreadable(handle.table_uri, error)


def column_names(handle: DeltaTable) -> list[str]:
    """The names of the table's columns at the handle's version."""
    return list(pa.schema(handle.schema()).names)


def conditional_append(handle: DeltaTable, rows: pa.Table, *, lease: HeldLease | None = None) -> None:
    """Commit the rows as one file if `handle` is at the newest version; the handle is then at the new one.

    The commit carries the token of the lease. Raises Conflict if the handle was not newest, Fenced if the table has a greater
    token. After Unwritable the caller looks up whether the commit landed.
    """
    refuse_other_writers.refuse_fenced(handle, lease)

    def append() -> None:
        write_deltalake(
            handle,
            rows,
            mode="append",
            commit_properties=once(lease),
            post_commithook_properties=_HOOKS,
            writer_properties=_SMALL,
        )

    _committed(handle, lease, append)


def conditional_replace(
    handle: DeltaTable,
    old: Iterable[str],
    rows: Iterable[pa.Table],
    *,
    at: datetime,
    bounds: str | None = None,
    lease: HeldLease | None = None,
) -> None:
    """In one commit, remove the files `old` from the table and add one file for each of `rows`, if `handle` is newest.

    The handle keeps its version: `refresh` it. Removed files stay on the disk for their readers. `at` is the time of the removal;
    `bounds` names the column whose smallest and largest values the Delta log keeps. Raises Conflict, Unwritable.
    """
    try:
        written = [_write_file(handle, table, int(at.timestamp() * 1000), bounds) for table in rows]
    except FAILURES as error:
        raise Unwritable(f"cannot write to table {handle.table_uri}: {reason(error)}") from error
    conditional_exchange(handle, old, written, at=at, lease=lease)


def conditional_exchange(
    handle: DeltaTable,
    old: Iterable[str],
    new: Iterable[AddAction],
    *,
    at: datetime,
    lease: HeldLease | None = None,
    transactions: Mapping[str, int] | None = None,
) -> None:
    """In one commit, remove the files `old` from the table and add the files `new`, which are already written.

    `transactions` are versions by application id. Otherwise as `conditional_replace`. Raises Conflict, Fenced, Unwritable.
    """
    actions = pa.table(handle.get_add_actions())
    known = actions.select([name for name in ("path", "size_bytes", "partition") if name in actions.column_names]).to_pylist()
    stored = {action["path"]: (action["size_bytes"], action.get("partition") or {}) for action in known}
    milliseconds = int(at.timestamp() * 1000)
    removed = []
    for path in old:
        size, values = stored[path]
        removed.append(RemoveAction(path, False, milliseconds, size, {name: str(value) for name, value in values.items()}))
    commit_actions(handle, [*new, *removed], lease=lease, transactions=transactions)


def commit_actions(
    handle: DeltaTable,
    actions: list[AddAction | RemoveAction],
    *,
    lease: HeldLease | None = None,
    transactions: Mapping[str, int] | None = None,
) -> None:
    """One commit of these actions, which may be none; the handle keeps its version. Raises Conflict, Fenced, Unwritable.

    A token never decreases: a table with a greater one refuses the commit.
    """
    refuse_other_writers.refuse_fenced(handle, lease)
    write_commit(handle, actions, lease, transactions)


def write_commit(
    handle: DeltaTable,
    actions: list[AddAction | RemoveAction],
    lease: HeldLease | None,
    transactions: Mapping[str, int] | None = None,
) -> None:
    """As `commit_actions`, for a caller that has compared the table's token with the lease."""

    def commit() -> None:
        handle.create_write_transaction(
            actions,
            "append",
            handle.schema(),
            partition_by=handle.metadata().partition_columns,
            commit_properties=once(lease, transactions),
            post_commithook_properties=_HOOKS,
        )

    _committed(handle, lease, commit)


def _committed(handle: DeltaTable, lease: HeldLease | None, commit: Callable[[], None]) -> None:
    """Commit, again if the store refused it although the table has no newer version. Raises as `committing`."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            with committing(handle, lease):
                commit()
        except Conflict:
            if not left or reopen(handle).version() != handle.version():
                raise
        else:
            return


def add_columns(handle: DeltaTable, schema: pa.Schema, lease: HeldLease | None) -> DeltaTable:
    """Add the columns of a schema that the table lacks, in one commit: rows that it has are NULL there.

    Returns the table at its newest version, the same handle if it lacks none. Raises Conflict, Fenced, Unwritable.
    """
    lacking = [column for column in schema if column.name not in column_names(handle)]
    if not lacking:
        return handle
    refuse_other_writers.refuse_fenced(handle, lease)
    fields = Schema.from_arrow(pa.schema(lacking)).fields
    properties = once(lease)
    _committed(
        handle, lease, lambda: handle.alter.add_columns(fields, commit_properties=properties, post_commithook_properties=_HOOKS)
    )
    return refresh(handle)


def once(lease: HeldLease | None, transactions: Mapping[str, int] | None = None) -> CommitProperties:
    """The properties of a commit that delta-rs does not repeat, with the token of the lease. Raises LeaseLost."""
    if lease is None and not transactions:
        return _ONCE
    if lease is not None:
        lease.check()
    versions = {**(transactions or {}), **({} if lease is None else {refuse_other_writers.APPLICATION: lease.token})}
    return CommitProperties(max_commit_retries=0, app_transactions=[Transaction(*each) for each in versions.items()])


@contextmanager
def committing(handle: DeltaTable, lease: HeldLease | None = None) -> Iterator[None]:
    """Raise Conflict if the handle of a commit was not at the newest version, else Unwritable if the commit failed.

    Raises Fenced instead of Conflict if the newest version has a greater token than the lease.
    """
    try:
        yield
    except CommitFailedError as error:
        if lease is not None:
            refuse_other_writers.refuse_fenced(reopen(handle), lease)
        raise Conflict(f"table {handle.table_uri} has a newer version than {handle.version()}") from error
    except FAILURES as error:
        raise Unwritable(f"cannot write to table {handle.table_uri}: {reason(error)}") from error


def files(handle: DeltaTable) -> dict[str, int]:
    """The table's active files at the handle's version: path relative to the table, size in bytes."""
    actions = pa.table(handle.get_add_actions())
    return dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))


def damaged(handle: DeltaTable, sizes: Mapping[str, int]) -> Iterator[str]:
    """The given files, by path and size, that are missing, have another size, or cannot be opened as Parquet."""
    files_of_it = storage(handle)
    for path, size in sizes.items():
        try:
            head = files_of_it.head(path)
            whole = head is not None and head.size == size
            if whole:
                with files_of_it.open(path) as opened:
                    pq.ParquetFile(opened, page_checksum_verification=True)
        except FAILURES:
            whole = False
        if not whole:
            yield path


def read_file(handle: DeltaTable, path: str, columns: list[str] | None = None) -> pa.Table:
    """The rows of one active file, in the order written. Raises Vanished if it was deleted, else Unreadable."""
    try:
        with storage(handle).open(path) as opened:
            return pq.ParquetFile(opened, page_checksum_verification=True).read(columns)
    except FileNotFoundError as error:
        raise Vanished(
            f"cannot read table {handle.table_uri}: its file {path} was deleted; restore it, and do not vacuum this table "
            "with other programs"
        ) from error
    except FAILURES as error:
        unreadable(f"{handle.table_uri}: file {path}", error)


def storage(handle: DeltaTable) -> Storage:
    """The storage of the table's files, which are named relative to the table."""
    return storage_at(handle.table_uri, _options(handle) or {})


def _options(handle: DeltaTable) -> dict[str, str] | None:
    return handle._storage_options  # noqa: SLF001  # delta-rs has no other way to ask


def _listed(look: Callable[[], T]) -> T:
    """Read a Delta log, again after an error.

    A listing of a folder that is being written may lack an entry that is older than listed ones (POSIX leaves open whether
    readdir returns entries that are added meanwhile). delta-rs takes such a log for damaged; the next listing is complete.
    """
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except TableNotFoundError:
            raise
        except DeltaError:
            continue
    return look()


def _write_file(handle: DeltaTable, rows: pa.Table, milliseconds: int, bounds: str | None) -> AddAction:
    path = f"part-{uuid4()}.parquet"
    with storage(handle).create(path) as upload:
        pq.write_table(
            rows,
            upload.stream,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
        )
        size = upload.close()
    statistics: dict[str, object] = {"numRecords": rows.num_rows}
    if bounds is not None:
        values = rows[bounds].to_pylist()
        statistics |= {"minValues": {bounds: min(values)}, "maxValues": {bounds: max(values)}}
    return AddAction(path, size, {}, milliseconds, False, json.dumps(statistics))
