"""A commit that is tried again after another writer's, as often as a bound allows."""

from collections.abc import Callable
from typing import Final, TypeVar

from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.errors import Conflict, Unwritable

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
