"""The lock of this machine and, on an object store, the lease of all machines, taken together.

The lock comes first: it excludes the other processes of this machine, and ends with the process. So a lease whose holder had the
same lock file is free, and only another machine waits for it to run out.
"""

import os
import socket
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.one_writer import write_leases, write_locks
from tandem.ledger.delta.one_writer.write_leases import Lease, Owner


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
    sleep: Callable[[float], None] = time.sleep,
) -> Lease | None:
    """Take the lock and the lease of these tables; None in a folder. The lease is renewed in a thread until it is released.

    Waits for each up to `patience` seconds. `lost` is called if the lease cannot be renewed, `sleep` between two looks: it may
    raise to give up. Raises LockTimeout, TandemError.
    """
    path, pid = tables.lock(name), os.getpid()
    write_locks.hold(path, acquire, what=what, pid=pid, at=at, patience=patience, say=say, sleep=sleep)
    if tables.local:
        return None
    host = socket.gethostname()
    owner = Owner(what, host, pid, at, _place(host, path))
    lease = write_leases.take(tables, name, owner, patience=patience, say=say, sleep=sleep)
    lease.keep(lost=lost)
    return lease


def _place(host: str, path: Path) -> str:
    """The lock file among those of all machines: a copy of it on another one has another host or inode."""
    status = path.stat()
    return f"{host}:{path.absolute()}:{status.st_dev}:{status.st_ino}"
