"""Become the one writer of tables: by the lock of this machine and, on an object store, by the lease of all machines."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime

from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.one_writer import become_writer, write_locks
from tandem.ledger.delta.one_writer.write_leases import Lease

hold = become_writer.hold


@contextmanager
def locked(
    settings: Settings, *names: str, what: str, now: Callable[[], datetime], say: Callable[[str], None]
) -> Iterator[Tables]:
    """For a command without Spark: hold locks and leases, taken in this order, until the block ends. Yields tables with them.

    Waits up to `batch.lock_wait_s` for each; raises write_locks.LockTimeout.
    """
    taken = dict[str, Lease]()
    tables = replace(Tables.of(settings), leases=taken)
    tables.make_root()
    with write_locks.own() as acquire, ExitStack() as held:
        for name in names:
            patience = settings.batch.lock_wait_s
            lease = hold(tables, name, acquire, what=what, at=now(), patience=patience, say=say)
            if lease is not None:
                taken[name] = lease
                held.callback(lease.release)
        yield tables
