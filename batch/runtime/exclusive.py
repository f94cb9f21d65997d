"""Take the locks of tables for a command without Spark."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from infra.settings import Settings
from ledger.delta import locks
from ledger.delta.addresses import Tables


@contextmanager
def locked(
    settings: Settings, *names: str, what: str, now: Callable[[], datetime], say: Callable[[str], None]
) -> Iterator[Tables]:
    """Hold the locks, taken in this order, until the block ends. Waits up to `batch.lock_wait_s`; raises locks.LockTimeout."""
    tables = Tables.of(settings)
    tables.make_root()
    with locks.own() as acquire:
        for name in names:
            locks.hold(
                tables.lock(name),
                acquire,
                what=what,
                pid=os.getpid(),
                at=now(),
                patience=settings.batch.lock_wait_s,
                say=say,
            )
        yield tables
