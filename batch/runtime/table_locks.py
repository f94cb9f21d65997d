"""Become the one writer of tables: by the lock of this machine and, on an object store, by the lease of all machines.

Both have one interface and one order. The lock comes first: it excludes the other processes of this machine, and ends with the
process. So a lease whose holder had the same lock file is free, and only another machine waits for it to run out.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.one_writer import leases, locks
from tandem.ledger.delta.one_writer.leases import Lease, Owner


@contextmanager
def locked(
    settings: Settings, *names: str, what: str, now: Callable[[], datetime], say: Callable[[str], None]
) -> Iterator[Tables]:
    """For a command without Spark: hold locks and leases, taken in this order, until the block ends. Yields tables with them.

    Waits up to `batch.lock_wait_s` for each; raises locks.LockTimeout.
    """
    taken = dict[str, Lease]()
    tables = replace(Tables.of(settings), leases=taken)
    tables.make_root()
    with locks.own() as acquire, ExitStack() as held:
        for name in names:
            patience = settings.batch.lock_wait_s
            lease = hold(tables, name, acquire, what=what, at=now(), patience=patience, say=say)
            if lease is not None:
                taken[name] = lease
                held.callback(lease.release)
        yield tables


def hold(
    tables: Tables,
    name: str,
    acquire: Callable[[Path], bool],
    *,
    what: str,
    at: datetime,
    patience: float,
    say: Callable[[str], None],
    lost: Callable[[], object] = lambda: None,
) -> Lease | None:
    """Take the lock and the lease of these tables; None in a folder. The lease is renewed in a thread until it is released.

    Waits for each up to `patience` seconds. `lost` is called if the lease cannot be renewed. Raises LockTimeout, TandemError.
    """
    path, pid = tables.lock(name), os.getpid()
    locks.hold(path, acquire, what=what, pid=pid, at=at, patience=patience, say=say)
    if tables.local:
        return None
    host = socket.gethostname()
    owner = Owner(what, host, pid, at, _place(host, path))
    lease = leases.take(tables, name, owner, patience=patience, say=say)
    lease.keep(lost=lost)
    return lease


def _place(host: str, path: Path) -> str:
    """The lock file among those of all machines: a copy of it on another one has another host or inode."""
    status = path.stat()
    return f"{host}:{path.absolute()}:{status.st_dev}:{status.st_ino}"
