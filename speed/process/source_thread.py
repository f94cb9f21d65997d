"""Follow one source of one release in a thread of its own, so that sources do not block or end each other."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, TypeVar

from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.kafka.source_topics import topics_of
from tandem.infra.lineage import data_set
from tandem.infra.lineage.data_set import DataSets, DerivedColumns
from tandem.infra.logs.telling import bound
from tandem.ledger.delta import delta_tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import Position, ranges
from tandem.ledger.log.registry_client import RegistryAway
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.ledger.realtime.commit_files import SCHEMA
from tandem.speed.progress import WaitingSource
from tandem.speed.source.follow import Follow, Surroundings, follow
from tandem.views.project.column_lineage import lineage
from tandem.views.project.project import load_files
from tandem.views.source.event import event_schema
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tandem.infra.lineage.runs import ReportedRun


_T = TypeVar("_T")

_LOOK_S: Final = 0.2
_POOL: Final = "spark.scheduler.pool"
_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 15.0
_REGISTRY_PAUSE_S: Final = 5.0


@dataclass(frozen=True)
class Wait:
    """How a source of a release waits for its broker, until `stop` is set."""

    around: Surroundings
    release: int
    source: Source
    stop: Event

    def through(self, step: Callable[[], _T]) -> _T | None:
        """Call `step` until broker and schema registry answer, and return its result; None if `stop` is set before.

        Raises NoBroker after `speed.broker_wait_s`, BrokerRefused at once, and what else the step raises.
        """
        while not self.stop.is_set():
            try:
                found = step()
            except kafka.NoBroker as error:
                self.until_there(error)
            except RegistryAway as error:
                self.for_registry(error)
            else:
                return found
        return None

    def for_registry(self, error: RegistryAway) -> None:
        """Wait before the next try, or until `stop` is set. Nothing is lost: the records stay in the log.

        The wait is recorded until a micro-batch succeeds: without one nobody knows whether the registry answers now.
        """
        since = self.around.now().isoformat(timespec="seconds")
        self.around.warn(f"source '{self.source.name}': {error}; asking again in {_REGISTRY_PAUSE_S:g} s")
        self.around.recorder.waits(WaitingSource(self.release, self.source.name, since, str(error)))
        self.stop.wait(_REGISTRY_PAUSE_S)

    def until_there(self, error: kafka.NoBroker) -> None:
        """Return when the broker answers for the source's topics again, or `stop` is set.

        Raises BrokerRefused, also if the embedded broker restarted at another address, NoBroker after `speed.broker_wait_s`, and
        NoTopic.
        """
        began, pause = time.monotonic(), _PAUSE_S
        since, seconds = self.around.now().isoformat(timespec="seconds"), self.around.settings.speed.broker_wait_s
        self.around.warn(f"source '{self.source.name}': {error}; waiting for the broker, at most {seconds} s")
        try:
            while not self.stop.is_set():
                if isinstance(error, kafka.BrokerRefused) or time.monotonic() - began > seconds:
                    raise error
                self.around.recorder.waits(WaitingSource(self.release, self.source.name, since, str(error)))
                self.stop.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                try:
                    self._refuse_moved()
                    topics_of(self.around.connection, self.source)
                except kafka.NoBroker as still:
                    error = still
                else:
                    self.around.warn(f"source '{self.source.name}': the broker answers again")
                    return
        finally:
            self.around.recorder.goes_on(self.release, self.source.name)

    def _refuse_moved(self) -> None:
        """Raise BrokerRefused if the broker's address or login changed: the layer must restart to use it."""
        asked, there = self.around.connection.address, broker.address(self.around.settings)
        if (asked.bootstrap, asked.options) != (there.bootstrap, there.options):
            raise kafka.BrokerRefused(
                f"the broker was started again with another port or password; it is at {there.bootstrap}, and this speed layer "
                f"follows {asked.bootstrap}: start the speed layer again"
            )


@dataclass
class Worker:
    """Follows the source from `start` to `stop`; `error` is what ended it otherwise. `state` is the release's newest state."""

    around: Surroundings
    release: Release
    source: str
    state: Publication
    error: BaseException | None = None
    _running: Event = field(default_factory=Event, repr=False)
    _stop: Event = field(default_factory=Event, repr=False)
    _follow: Follow | None = field(default=None, repr=False)
    _thread: Thread | None = field(default=None, repr=False)

    @property
    def ready(self) -> bool:
        """Whether the realtime table is claimed and the query runs."""
        return self._running.is_set()

    @property
    def position(self) -> tuple[Source, Position] | None:
        """The source and the end of its realtime table; None until the table is claimed."""
        return None if self._follow is None else (self._follow.source, self._follow.tail.writer.end)

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread = Thread(target=self._run, name=f"release {self.release.number}, {self.source}")
        self._thread.start()

    def know(self, state: Publication) -> None:
        """Take a newer state, which may cover records that this worker never read, because a batch bridged them."""
        self.state = state
        if self._follow is not None:
            self._follow.tail.live = state

    def ask_to_stop(self) -> None:
        """Ask the thread to stop; returns at once."""
        self._stop.set()

    def stop(self) -> None:
        """Stop the thread; a running micro-batch is committed whole or not at all."""
        self.ask_to_stop()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_LOOK_S)
            # A running micro-batch is waited for without a limit; the pulse of its source bounds its time.
            self.around.recorder.heart.beat()

    def _run(self) -> None:
        ends = self.around.stopping
        around = replace(self.around, stopping=lambda: ends() or self._stop.is_set())
        with bound(release=self.release.number, source=self.source):
            self._work(around)

    def _work(self, around: Surroundings) -> None:
        around.recorder.heart.begins(self.release.number, self.source)
        try:
            # Releases share the executors evenly, so that a release that catches up does not hold up the live one.
            around.spark.sparkContext.setLocalProperty(_POOL, f"release {self.release.number}")
            project = load_files(self.release.files)
            views = {name: view for name, view in project.views.items() if view.source.name == self.source}
            source = project.sources[self.source]
            wait = Wait(around, self.release.number, source, self._stop)
            found = wait.through(lambda: follow(around, self.release, source, views, self.state))
            if found is None:
                return
            self._follow = found
            # A newer state may have arrived while the realtime table was claimed.
            found.tail.live = self.state
            self._running.set()
            with following(self._follow) as told:
                while not self._stop.wait(_LOOK_S):
                    try:
                        self._follow.check()
                    except kafka.NoBroker as error:
                        wait.until_there(error)
                        wait.through(self._follow.begin)
                    except RegistryAway as error:
                        wait.for_registry(error)
                        wait.through(self._follow.begin)
                    if told is not None:
                        told.running()
        except BaseException as error:  # noqa: BLE001 - the layer raises or reports it
            self.error = error
        try:
            if self._follow is not None:
                self._follow.stop()
        except BaseException as error:  # noqa: BLE001 - with a Spark that died, stopping fails, too
            self.error = self.error or error
        around.recorder.goes_on(self.release.number, self.source)
        around.recorder.heart.ends(self.release.number, self.source)


def following(follow: Follow) -> "AbstractContextManager[ReportedRun | None]":
    """The reported run of a source under one release, with the positions that this process has folded."""
    around, source, tail = follow.around, follow.source, follow.tail
    tables, start = around.tables, tail.writer.end

    def look() -> DataSets:
        names = ArchiveLedger(tables, source.name).topic_names()
        covered = ranges(start, tail.writer.end, tail.state.firsts).intervals
        address, schema = broker.address(around.settings).bootstrap, event_schema(source.event)
        read = tuple(
            data_set.topic(address, name, schema, Ranges(tuple(one for one in covered if names.get(one[0][0]) == name)))
            for name in source.topics_among(names.values())
        )
        at = tables.realtime(follow.release.number, source.name)
        handle = delta_tables.open_table(tables, at)
        table = data_set.table(at, SCHEMA, None if handle is None else handle.version())
        namespace = around.settings.lineage.namespace
        views = tuple(
            data_set.view(namespace, view.name, DerivedColumns(read[0], lineage(view))) for view in tail.views.values() if read
        )
        return DataSets(read, (table, *views))

    return around.reporter.run(f"speed.{source.name}", "STREAMING", look, release=follow.release.number)
