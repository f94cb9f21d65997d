"""A commit that is tried again after another writer's, as often as a bound allows; the claim of a table is such a commit."""

from collections.abc import Callable
from typing import Final, TypeVar

from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.errors import Conflict, Unwritable
from tandem.ledger.delta.one_writer import refuse_other_writers
from tandem.ledger.delta.one_writer.refuse_other_writers import HeldLease

T = TypeVar("T")

ATTEMPTS: Final = 100


def commit_again(handle: DeltaTable, commit: Callable[[DeltaTable], T]) -> T:
    """What `commit` returns for the table at its newest version; it is called again for a newer one after each Conflict.

    Raises Unwritable after `ATTEMPTS` calls, and what `commit` raises beside Conflict.
    """
    for _ in range(ATTEMPTS):
        try:
            return commit(handle)
        except Conflict:
            handle = delta_tables.reopen(handle)
    raise Unwritable(
        f"cannot write to table {handle.table_uri}: other writers committed first {ATTEMPTS} times; run the command again"
    )


def claim(handle: DeltaTable, lease: HeldLease | None) -> DeltaTable:
    """Raise the table's token to that of the lease: no holder of an earlier one commits to it from then on.

    Call it before reading what a commit is decided on, and before writing files of it. Returns the table at its newest version,
    the same handle without a lease. Raises Fenced, LeaseLost, Unwritable, Unreadable.
    """
    if lease is None:
        return handle

    def attempt(newest: DeltaTable) -> DeltaTable:
        if refuse_other_writers.refuse_fenced(newest, lease) == lease.token:
            return newest
        try:
            delta_tables.write_commit(newest, [], lease)
        except Unwritable:
            newest = delta_tables.reopen(newest)
            if refuse_other_writers.refuse_fenced(newest, lease) != lease.token:
                raise
            return newest
        return delta_tables.refresh(newest)

    return commit_again(delta_tables.refresh(handle), attempt)
