"""The resources of a batch run: settings, tables, clock and logger, a Spark session, and the locks of the tables to write."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from tandem.batch.runtime import table_locks
from tandem.infra.settings import Settings
from tandem.infra.spark.jvm_lock import locker
from tandem.infra.spark.session import get_or_create_session
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.one_writer.refuse_other_writers import LeaseLost
from tandem.ledger.delta.one_writer.write_leases import Lease
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.views.decode.schema_ids import needs_registry
from tandem.views.errors import TandemError
from tandem.views.source.source import Source

Lock = Literal["archive", "views"]
"""Which tables a run writes: those of the log or of the views. A run that takes both locks takes that of the views first."""


@dataclass(frozen=True)
class BatchRun:
    """One run of a batch command. `by` names it in commits, `say` reports its progress, `now` is the clock.

    `started` is called with the Spark session once it has started. A run that `copies` reads the rows of a table by Spark's
    JVM.
    """

    settings: Settings
    by: str
    now: Callable[[], datetime]
    say: Callable[[str], None]
    environ: Mapping[str, str] = field(repr=False)
    debug: bool = False
    copies: bool = False
    started: Callable[[SparkSession], object] = lambda _: None
    _leases: dict[str, Lease] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def tables(self) -> Tables:
        """All tables of the project, with the leases that this run holds."""
        return replace(Tables.of(self.settings), leases=self._leases)

    @cached_property
    def standing(self) -> StandingReleases:
        """The states of releases, and the publications; read through journals that the run opens once."""
        return StandingReleases(self.tables)

    @cached_property
    def releases(self) -> Releases:
        """The stored releases, read through a journal that the run opens once."""
        return Releases(self.tables)

    def schemas_of(self, source: Source) -> RegistrySchemas:
        """The schemas of registries, with those that are stored if the source reads any. Raises Unreadable."""
        if needs_registry(source):
            self._schemas.load()
        return self._schemas

    @cached_property
    def _schemas(self) -> RegistrySchemas:
        return RegistrySchemas(self.settings.registry, self.tables, self.now)

    @property
    def session(self) -> SparkSession:
        """The Spark session, started when it is first needed. Raises LeaseLost: a run that lost its lease starts no job."""
        self._check()
        return self._session

    @cached_property
    def _session(self) -> SparkSession:
        session = get_or_create_session(self.settings, self.by, environ=self.environ, optimized=self.copies, debug=self.debug)
        self.started(session)
        return session

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        return max(1, int(self.session.sparkContext.defaultParallelism))

    def hold(self, name: Lock) -> None:
        """Take the lock of these tables, held until this process and its JVM have ended; on an object store also their lease.

        Waits for another process up to `batch.lock_wait_s`; then raises LockTimeout. If the lease cannot be renewed, Spark's jobs
        are cancelled, and the run ends with LeaseLost.
        """
        self.tables.make_root()
        if name not in self._leases:
            session = self.session
            self._keep(name, locker(session), lost=session.sparkContext.cancelAllJobs)

    def _keep(self, name: Lock, acquire: Callable[[Path], bool], *, lost: Callable[[], object]) -> None:
        taken = table_locks.hold(
            self.tables,
            name,
            acquire,
            what=f"tandem {self.by}",
            at=self.now(),
            patience=self.settings.batch.lock_wait_s,
            say=self.say,
            lost=lost,
        )
        if taken is not None:
            self._leases[name] = taken

    @contextmanager
    def releasing(self) -> Iterator[None]:
        """Release the leases when the block ends. An error in it that follows from a lost lease becomes LeaseLost."""
        try:
            yield
        except TandemError as error:
            try:
                self._check()
            except LeaseLost as lost:
                raise lost from error
            raise
        finally:
            for held in self._leases.values():
                held.release()

    def _check(self) -> None:
        for held in self._leases.values():
            held.check()
