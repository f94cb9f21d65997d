"""Reports runs: START, RUNNING at intervals, and COMPLETE or FAIL at the end. A report neither fails nor delays a run."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tandem.infra.lineage.data_set import DataSets
from tandem.infra.logs.telling import without
from tandem.infra.settings import Settings, secrets

if TYPE_CHECKING:
    from tandem.infra.lineage.events import Kind, NamedRun, State
    from tandem.infra.lineage.sending import Sending

NOTHING: Final = DataSets()
Look = Callable[[], DataSets]
"""Returns the data sets that a run reads and writes, at the time of a report."""


@dataclass
class ReportedRun:
    """A reported run: each report calls `look` for its data sets."""

    reporter: "Reporter"
    named: "NamedRun"
    look: Look
    _next: float = field(default=0.0, init=False, repr=False)

    def running(self) -> None:
        """Report that the run continues, unless that was reported a moment ago."""
        if (now := time.monotonic()) >= self._next:
            if self._next:
                self.tell("RUNNING")
            self._next = now + self.reporter.settings.lineage.every_s

    def tell(self, state: "State", error: str | None = None) -> None:
        """Send an event with the run's current data sets."""
        from tandem.infra.lineage.events import event  # noqa: PLC0415 - what is off need not be loaded

        reporter = self.reporter
        try:
            told = event(self.named, state, self.look(), at=reporter.now(), error=error)
        except Exception as fault:  # noqa: BLE001 - the run itself reports faults of tables or broker
            reporter.warn(f"a lineage event of {self.named.job} was sent without data sets: {fault}")
            told = event(self.named, state, NOTHING, at=reporter.now(), error=error)
        if reporter.sending is not None:
            reporter.sending.send(told)


@dataclass(frozen=True)
class Reporter:
    """Reports runs if the settings ask for it; else it does nothing."""

    settings: Settings
    now: Callable[[], datetime]
    warn: Callable[[str], object]
    sending: "Sending | None" = None

    @contextmanager
    def run(self, job: str, kind: "Kind", look: Look, *, release: int) -> Iterator[ReportedRun | None]:
        """A run of a job from here to the block's end; None if nothing is reported."""
        if self.sending is None:
            yield None
            return
        from openlineage.client.uuid import generate_new_uuid  # noqa: PLC0415 - what is off need not be loaded

        from tandem.infra.lineage.events import NamedRun  # noqa: PLC0415 - likewise

        lineage = self.settings.lineage
        told = ReportedRun(self, NamedRun(str(generate_new_uuid()), lineage.namespace, job, kind, release, os.getpid()), look)
        told.tell("START")
        try:
            yield told
        except BaseException as error:
            told.tell("FAIL", str(without(str(error) or type(error).__name__, secrets(self.settings))))
            raise
        told.tell("COMPLETE")


@contextmanager
def reporting(settings: Settings, *, now: Callable[[], datetime], warn: Callable[[str], object]) -> Iterator[Reporter]:
    """A reporter until the block ends, which then waits for the delivery of its events, at most as long as the settings allow."""
    if not (settings.lineage.url or settings.lineage.file):
        yield Reporter(settings, now, warn)
        return
    from tandem.infra.lineage.sending import Sending  # noqa: PLC0415 - what is off need not be loaded

    sending = Sending(settings, warn)
    try:
        yield Reporter(settings, now, warn, sending)
    finally:
        sending.close()
