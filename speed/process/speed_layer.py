"""The speed layer: a query for each source of the live release, all in one process.

The layer also follows standing releases, so that an applied one can be promoted and a former one rolled back to. A failure of a
standing release does not end the layer: the ledger then records that the release is no longer kept up to date.

One layer at a time writes the realtime tables. Another one stands by with its session until the first ends, or until its machine
has not renewed the lease.
"""

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.lineage.runs import reporting
from tandem.infra.logs.telling import bound
from tandem.infra.settings import Settings
from tandem.infra.spark.errors import worded
from tandem.ledger.delta.addresses import SPEED, Tables
from tandem.ledger.delta.errors import Unwritable
from tandem.ledger.delta.one_writer import become_writer, write_locks
from tandem.ledger.delta.one_writer.refuse_other_writers import Fenced, LeaseLost
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import adoption
from tandem.ledger.publish.publications import NotPublishable, Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.ledger.realtime_writer import NewerEpoch
from tandem.speed.process.group_offsets import GroupOffsets
from tandem.speed.process.source_thread import Worker
from tandem.speed.progress import MicroBatchSeconds, ProgressRecorder, WaitingSource
from tandem.speed.source.checkpoints import own_folder
from tandem.speed.source.follow import Surroundings
from tandem.views.project.project import Project
from tandem.views.source.source import Source

_ENDED = "the speed layer has ended; its commits stay, and the next run continues from there"
_EVERY = "every source"
"""What a layer that stands by waits for, in place of one source."""
_LOOK_S = 0.2
_LOOKS_PER_PUBLICATION = 5
_LOOKS_UNTIL_ALONE = 25
_TELL_S = 60.0
_OF_THE_LAYER = (NewerEpoch, Fenced, LeaseLost, Unwritable, kafka.NoBroker)
"""The fault of the whole layer, not of one release: another layer runs, or storage or broker fail."""


def run(
    settings: Settings,
    *,
    project: Callable[[], Project],
    session: Callable[[], SparkSession],
    stop: Event,
    now: Callable[[], datetime],
    say: Callable[[str], None],
    warn: Callable[[str], None],
    ready: Callable[[], object],
) -> None:
    """Run until `stop` is set, under the definitions of the live release; a new publication changes them.

    Args:
        project: called only if nothing is published yet: its definitions become publication 1.
        session: called once there is a log to read; its session needs tandem.speed.source.query.CONF.
        ready: called when every table is claimed and every query runs, and again after a change of the release; before, when
            the layer stands by.
        say: reports progress.
        warn: reports what an operator should check.

    Raises a TandemError with the reason that ended the layer. All commits stay, and the next run continues from them.
    """
    tables = Tables.of(settings)
    by = f"speed (process {os.getpid()})"
    connection = kafka.connect(broker.address(settings))
    if Publications(tables).latest() is None:
        adoption.live(tables, project, by=by, at=now())
    checkpoints = own_folder(settings.folder)
    spark = session()
    folded = Telling(say, every_s=_TELL_S, clock=time.monotonic)
    recorder = ProgressRecorder(settings.folder, os.getpid(), folded.add)
    listen(spark, recorder)
    with (
        reporting(settings, now=now, warn=warn) as reporter,
        _alone(tables, recorder, stop=stop, now=now, say=say, ready=ready) as owned,
    ):
        if owned is not None:
            around = Surroundings(spark, settings, owned, connection, checkpoints, by, now, warn, reporter, stop.is_set, recorder)
            _follow_all(around, stop, say=say, ready=ready)


class _Stopped(Exception):
    """The layer is to end while it stands by."""


@contextmanager
def _alone(
    tables: Tables,
    recorder: ProgressRecorder,
    *,
    stop: Event,
    now: Callable[[], datetime],
    say: Callable[[str], None],
    ready: Callable[[], object],
) -> Iterator[Tables | None]:
    """Wait until no other layer may write, and yield the tables with the lease; None if `stop` is set before."""

    def wait(seconds: float) -> None:
        recorder.heart.beat()
        if stop.wait(seconds):
            raise _Stopped

    def standing_by(text: str) -> None:
        say(f"standing by: {text}")
        recorder.waits(WaitingSource(0, _EVERY, now().isoformat(timespec="seconds"), f"standing by: {text}"))
        ready()

    tables.make_root()
    with write_locks.own() as acquire:
        try:
            lease = become_writer.hold(
                tables, SPEED, acquire, what="tandem speed", at=now(), patience=math.inf, say=standing_by, sleep=wait
            )
        except _Stopped:
            yield None
            return
        recorder.goes_on(0, _EVERY)
        try:
            yield tables if lease is None else replace(tables, leases={**tables.leases, SPEED: lease})
        finally:
            if lease is not None:
                lease.release()


def _follow_all(around: Surroundings, stop: Event, *, say: Callable[[str], None], ready: Callable[[], object]) -> None:
    """Follow every release until `stop` is set."""
    team = _Team(around)
    shown = GroupOffsets(around.connection, around.settings.speed.consumer_group, team.positions, around.warn)
    try:
        shown.start()
        told = 0
        while not stop.wait(_LOOK_S):
            _ask_java(around.spark)
            for lease in around.tables.leases.values():
                lease.check()
            live = team.look()
            around.recorder.heart.beat(live)
            if team.ready(live) and told != live:
                if told:
                    say(f"release {live} is live; continuing with its definitions")
                with bound(release=live):
                    say("following every source")
                ready()
                told = live
    except Exception as error:
        if worse := worded(error, _ENDED):
            raise worse from error
        raise
    finally:
        shown.stop()
        team.stop()
        shutil.rmtree(around.checkpoints, ignore_errors=True)


def _ask_java(spark: SparkSession) -> None:
    """Return once Spark's JVM has answered, so that each pulse of this loop shows that both processes live."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only way to the JVM that py4j offers
    jvm.java.lang.System.nanoTime()


@dataclass
class _Team:
    """The workers of all followed releases, by release and source."""

    around: Surroundings
    _workers: dict[tuple[int, str], Worker] = field(default_factory=dict)
    _looks: int = 0
    _live: int = 0
    _looks_ended: dict[int, int] = field(default_factory=dict)
    _followed: Followed = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._followed = Followed(StandingReleases(self.around.tables), self.around.settings.keep.release_days)

    def look(self) -> int:
        """Start and end workers as the ledger says. Returns the live release. Raises what ended a worker of it."""
        if self._looks % _LOOKS_PER_PUBLICATION == 0:
            self._assign(self._followed.states(self.around.now()))
        self._looks += 1
        ended = {release: worker.error for (release, _), worker in self._workers.items() if worker.error is not None}
        for release, error in ended.items():
            if release == self._live or isinstance(error, _OF_THE_LAYER):
                raise error
            # A fault of all of them, such as Spark's death, need not end the live one first.
            self._looks_ended[release] = self._looks_ended.get(release, 0) + 1
            if self._looks_ended[release] > _LOOKS_UNTIL_ALONE:
                self._give_up(release, error)
        return self._live

    def ready(self, release: int) -> bool:
        """Whether every source of a release is followed."""
        return all(worker.ready for (of, _), worker in self._workers.items() if of == release)

    def positions(self) -> dict[str, tuple[Source, Position]]:
        """What the live release has counted, by source; for any thread."""
        workers = [(source, worker.position) for (release, source), worker in [*self._workers.items()] if release == self._live]
        return {source: position for source, position in workers if position is not None}

    def stop(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            worker.ask_to_stop()
        for worker in self._workers.values():
            worker.stop()

    def _assign(self, states: Sequence[Publication]) -> None:
        self._live = states[0].release
        for state in states:
            sources = [source for of, source in self._workers if of == state.release]
            if not sources:
                release = Releases(self.around.tables).load(state.release)
                for source in release.sources:
                    self._workers[state.release, source] = worker = Worker(self.around, release, source, state)
                    worker.start()
            for source in sources:
                self._workers[state.release, source].know(state)
        for gone in {of for of, _ in self._workers} - {state.release for state in states}:
            self._dismiss(gone)

    def _give_up(self, release: int, error: BaseException) -> None:
        why = str(worded(error, "it cannot be followed") or error)
        state = next(worker.state for (of, _), worker in self._workers.items() if of == release)
        self._dismiss(release)
        with suppress(NotPublishable):  # it has just gone live, and the next poll ends the layer
            StandingReleases(self.around.tables).record(
                "failed", replace(state, by=self.around.by, at=self.around.now(), why=why)
            )
            self.around.warn(f"release {release}, which is kept beside the live one, is no longer kept up to date: {why}")

    def _dismiss(self, release: int) -> None:
        gone = [key for key in self._workers if key[0] == release]
        for key in gone:
            self._workers[key].ask_to_stop()
        for key in gone:
            self._workers.pop(key).stop()


@dataclass
class _Listener:
    """Spark's StreamingQueryListener, which takes each progress as one JSON text: PySpark's own asks the JVM for every field."""

    recorder: ProgressRecorder

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's names
        self.recorder.add(event.progress().json())

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.recorder.idle(event.id().toString())

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing."""

    class Java:
        """The interface that py4j implements."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def listen(spark: SparkSession, recorder: ProgressRecorder) -> None:
    """Record the session's queries from now on."""
    context: Any = spark.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as PySpark does
    streaming = context._jvm.org.apache.spark.sql.streaming  # noqa: SLF001
    listener = streaming.PythonStreamingQueryListenerWrapper(_Listener(recorder))
    spark._jsparkSession.streams().addListener(listener)  # noqa: SLF001


@dataclass
class Telling:
    """Sums up micro-batches and logs the sums of a source at most every `every_s` seconds; `clock` returns seconds.

    The first micro-batch is logged at once. A source without records logs nothing.
    """

    say: Callable[[str], object]
    every_s: float
    clock: Callable[[], float]
    _sums: dict[tuple[int, str], list[float]] = field(default_factory=dict, init=False, repr=False)
    _said: dict[tuple[int, str], float] = field(default_factory=dict, init=False, repr=False)

    def add(self, folded: MicroBatchSeconds) -> None:
        """Add a micro-batch."""
        key, now = (folded.release, folded.source), self.clock()
        sums = self._sums.setdefault(key, [0, 0, 0.0])
        for place, more in enumerate((1, folded.records, folded.seconds)):
            sums[place] += more
        if now - self._said.get(key, float("-inf")) < self.every_s:
            return
        batches, records, seconds = self._sums.pop(key)
        self._said[key] = now
        with bound(
            release=folded.release, source=folded.source, micro_batches=batches, records=records, seconds=round(seconds, 3)
        ):
            self.say("folding records")
