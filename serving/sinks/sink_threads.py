"""Runs the sinks of a process: each alone under its lock, and again after a failure.

All sinks of a process share its views in memory. Each writes in a thread of its own, so a target that is slow or dead holds no
other sink; a thread that waits for such a target ends with the process, which leaves the target as a killed process does.
"""

import hashlib
import os
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields
from threading import Event, Thread
from typing import Final

from structlog.typing import FilteringBoundLogger

from tandem.infra import clock
from tandem.infra.logs.telling import without
from tandem.infra.settings import Settings, secrets
from tandem.infra.supervision import restarts
from tandem.ledger.delta.one_writer import write_locks
from tandem.serving.connection import Connection
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.sinks.changes_to_send import SinkStep, follow
from tandem.serving.sinks.definition import check_sink, follows_hot, rows_of, target_of
from tandem.serving.sinks.posting import wait_s
from tandem.serving.sinks.target import SinkInProject, Target, TargetLog
from tandem.serving.status.sink_report import SinkReporter, TargetToken, folder
from tandem.serving.status.sinks import is_view
from tandem.views.alert import Alert
from tandem.views.composite.rollup import root
from tandem.views.errors import TandemError, said_by
from tandem.views.sinks.sink import Sink

_END_S: Final = 5.0
"""Seconds that a step may take once its process was asked to end."""


@dataclass(frozen=True)
class SinkRunner:
    """Runs sinks over connections, which somebody else keeps polling, and reports where each stands.

    Answers of `connection` are those of commits. With `hot`, sinks that follow the hot tail have its answers.
    """

    connection: Connection
    hot: Connection | None = None
    _reporters: dict[str, SinkReporter] = field(default_factory=dict, init=False, repr=False)

    @contextmanager
    def target(self, defined: SinkInProject) -> Iterator[Target | TargetLog]:
        """The target of a sink, which no other process of this state folder writes until the block ends.

        An error that ends the block is reported. Raises LockTimeout, SinkRefused, BadSelection, Unreadable.
        """
        sink, settings = defined.sink, defined.settings
        with _alone(settings, sink.name):
            view, first = sink.view, root(sink.view)
            of = "" if first is view else first.name
            reporter = SinkReporter(settings.folder, sink.name, view.name, view.source.name, clock.now, of)
            self._reporters[sink.name] = reporter
            try:
                check_sink(defined)
                with closing(target_of(defined)) as target:
                    yield target
            except GeneratorExit:
                raise
            except BaseException as error:
                reporter.add_failure(str(without(reason_of(error), secrets(settings))))
                raise

    def steps(self, defined: SinkInProject) -> Iterator[SinkStep]:
        """Write every change until the connection is closed. Raises as `target` and `write`."""
        with self.target(defined) as target:
            yield from self.write(defined, target)

    def write(self, defined: SinkInProject, target: Target | TargetLog) -> Iterator[SinkStep]:
        """Write every change to the target of a sink until the connection is closed. Raises as `follow`."""
        sink = defined.sink
        connection = self.hot if self.hot is not None and follows_hot(sink) else self.connection
        for step in follow(connection.view(sink.view.name), target, rows_of(sink)):
            self._reporters[sink.name].add_step(_token(step.token), rows=step.rows, gone=step.gone, compared=step.compared)
            yield step

    def compare(self) -> None:
        """Report of each sink that its target is the view, if that is so at the newest snapshot."""
        try:
            snapshot = self.connection.pinned().snapshot
        except ReadFailed:
            return
        for reporter in [*self._reporters.values()]:
            if is_view(reporter.report, snapshot):
                reporter.equal()

    def keep(self, sinks: Collection[SinkInProject], stop: Event, log: FilteringBoundLogger) -> "SinkThreads":
        """Run all of them in threads until `stop` is set, each again after every failure, and later after each in a row."""
        threads = [
            Thread(target=self._keep, args=(each, stop, log), name=f"sink {each.sink.name}", daemon=True) for each in sinks
        ]
        for thread in threads:
            thread.start()
        return SinkThreads(threads)

    def _keep(self, defined: SinkInProject, stop: Event, log: FilteringBoundLogger) -> None:
        name, terms, failures = defined.sink.name, restarts.terms(defined.settings.supervisor), 0
        while not stop.is_set():
            try:
                for step in self.steps(defined):
                    if failures or step.compared:
                        log.info("the sink writes", sink=name, rows=step.rows, gone=step.gone, compared=step.compared)
                    failures = 0
            except BaseException as error:  # noqa: BLE001 - whatever a target raises, a panic of its client too, is of one sink
                failures += 1
                wait = wait_s(error, restarts.pause(failures, terms))
                log.warning("the sink failed and is tried again", sink=name, in_s=wait, error=reason_of(error))
                stop.wait(wait)


@dataclass(frozen=True)
class SinkThreads:
    """The threads of running sinks."""

    threads: list[Thread]

    def join(self) -> None:
        """Wait for the steps at hand, for some seconds; a later one is cut off as by a kill."""
        for thread in self.threads:
            thread.join(_END_S / len(self.threads))


def reason_of(error: BaseException) -> str:
    """Why a sink has failed."""
    return str(error) if isinstance(error, TandemError) else said_by(error)


def _token(text: str) -> TargetToken:
    named = ChangesToken.parse(text)
    return TargetToken(text, named.release, named.fingerprint, named.version, named.position.to_json())


def fingerprint(sinks: Collection[Sink], alerts: Collection[Alert] = ()) -> str:
    """What sinks write and where, and what alerts say: a process that runs others than these has to be restarted."""
    outputs: list[Sink | Alert] = [*sinks, *alerts]
    meant = [
        [type(each).__name__, each.view.name, *(repr(getattr(each, part.name)) for part in fields(each) if part.name != "view")]
        for each in outputs
    ]
    return hashlib.sha256(repr(sorted(meant)).encode()).hexdigest()


@contextmanager
def _alone(settings: Settings, name: str) -> Iterator[None]:
    """Hold the lock of a sink, so that no other process of this state folder writes its target. Raises LockTimeout."""
    path = folder(settings.folder) / f"{name}.lock"
    with write_locks.own() as acquire:
        try:
            write_locks.hold(
                path,
                acquire,
                what="`tandem sink`",
                pid=os.getpid(),
                at=clock.now(),
                patience=0,
                say=lambda _: None,
            )
        except write_locks.LockTimeout as error:
            holder = write_locks.owner(path) or "another process"
            raise write_locks.LockTimeout(f"sink {name!r} is run by {holder} already; end that, then run this again") from error
        yield
