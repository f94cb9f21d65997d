"""The resources of a batch run: settings, tables, clock and logger, a Spark session, and the locks of the tables to write."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Literal

from pyspark.sql import SparkSession

from infra.settings import Settings
from infra.spark.jvm_lock import locker
from infra.spark.session import get_or_create_session
from ledger.delta import locks
from ledger.delta.addresses import Tables

Lock = Literal["archive", "views"]
"""Which tables a run writes: those of the log or of the views. A run that takes both locks takes that of the views first."""


@dataclass(frozen=True)
class BatchRun:
    """One run of a batch command. `by` names it in commits, `say` reports its progress, `now` is the clock.

    `started` is called with the Spark session once it has started.
    """

    settings: Settings
    by: str
    now: Callable[[], datetime]
    say: Callable[[str], None]
    environ: Mapping[str, str] = field(repr=False)
    debug: bool = False
    started: Callable[[SparkSession], object] = lambda _: None

    @cached_property
    def tables(self) -> Tables:
        """All tables of the project."""
        return Tables.of(self.settings)

    @cached_property
    def session(self) -> SparkSession:
        """The Spark session, started when it is first needed."""
        session = get_or_create_session(self.settings, self.by, environ=self.environ, debug=self.debug)
        self.started(session)
        return session

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        return max(1, int(self.session.sparkContext.defaultParallelism))

    def hold(self, name: Lock) -> None:
        """Take the lock of these tables, which this process's JVM holds until it ends.

        Waits for another process up to `batch.lock_wait_s`; then raises LockTimeout.
        """
        self.tables.make_root()
        locks.hold(
            self.tables.lock(name),
            locker(self.session),
            what=f"tandem {self.by}",
            pid=os.getpid(),
            at=self.now(),
            patience=self.settings.batch.lock_wait_s,
            say=self.say,
        )
