"""The token of a table: which holder of a lease may commit to it (ledger/delta/one_writer/write_leases.py).

    TandemError
    ├── Fenced        another process holds the lease now, and this one must stop
    ├── LeaseLost     this process could not renew its lease in time, and stops by itself
    └── Unclaimed     a commit without a lease, or before its holder has claimed the table: a mistake of the program

The token is a Delta transaction (`txnAppId` APPLICATION, `txnVersion` the token), so it is part of a version of the table. A
holder *claims* a table by a commit with its own token. From then on each of its commits needs its own token in the very version
that it commits on. So a holder of an earlier token commits nothing, however long it was paused and however often it reopens the
table.
"""

from typing import Final, Protocol

from tandem.views.errors import TandemError

APPLICATION: Final = "tandem.lease"
"""The Delta application id of tokens."""


class Fenced(TandemError, code="lease-fenced"):
    """A holder of a newer token has claimed the table; nothing was committed."""


class LeaseLost(TandemError, code="lease-lost"):
    """The process could not renew its lease in time."""


class Unclaimed(TandemError, code="table-unclaimed"):
    """A guarded table was to be written without its lease, or before the claim of it."""


class HeldLease(Protocol):
    """A lease as a commit needs it."""

    @property
    def token(self) -> int:
        """Larger than the token of every earlier holder."""

    def check(self) -> None:
        """Raise LeaseLost if the lease was not renewed in time."""

    def now_held(self) -> str:
        """The present holder, in words."""


class Versioned(Protocol):
    """A handle of a table at a version."""

    @property
    def table_uri(self) -> str:
        """The table's address."""

    def transaction_version(self, app_id: str) -> int | None:
        """The version of an application's newest transaction."""


def token(handle: Versioned) -> int:
    """The table's token at the handle's version; 0 if nobody has claimed it."""
    return handle.transaction_version(APPLICATION) or 0


def refuse_fenced(handle: Versioned, lease: HeldLease | None) -> int:
    """The table's token at the handle's version; 0 without a lease. Raises Fenced if it is greater than that of the lease.

    On an object store a look costs a request for each commit since the table's checkpoint.
    """
    if lease is None:
        return 0
    there = token(handle)
    if there > lease.token:
        raise Fenced(
            f"table {handle.table_uri} is written by {lease.now_held()}, with token {there}; this process has token "
            f"{lease.token} and must stop; run the command again"
        )
    return there


def refuse_unclaimed(handle: Versioned, lease: HeldLease | None) -> None:
    """Raise Fenced or Unclaimed unless the table's token at the handle's version equals that of the lease."""
    if refuse_fenced(handle, lease) != (0 if lease is None else lease.token):
        raise Unclaimed(f"table {handle.table_uri} was to be written by a process that has not claimed it")
