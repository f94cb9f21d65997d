"""Take the locks and leases of tables for a command without Spark."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime

from tandem.batch.runtime import table_locks
from tandem.infra.settings import Settings
from tandem.ledger.delta import locks
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.leases import Lease


@contextmanager
def locked(
    settings: Settings, *names: str, what: str, now: Callable[[], datetime], say: Callable[[str], None]
) -> Iterator[Tables]:
    """Hold the locks and leases, taken in this order, until the block ends. Yields the tables with these leases.

    Waits up to `batch.lock_wait_s` for each; raises locks.LockTimeout.
    """
    leases = dict[str, Lease]()
    tables = replace(Tables.of(settings), leases=leases)
    tables.make_root()
    with locks.own() as acquire, ExitStack() as held:
        for name in names:
            patience = settings.batch.lock_wait_s
            lease = table_locks.hold(tables, name, acquire, what=what, at=now(), patience=patience, say=say)
            if lease is not None:
                leases[name] = lease
                held.callback(lease.release)
        yield tables
