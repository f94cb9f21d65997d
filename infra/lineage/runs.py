"""Runs as they are told: START, now and then RUNNING, COMPLETE or FAIL at the end. Telling fails no run and delays none."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from infra.lineage.data_set import DataSets
from infra.logs.telling import without
from infra.settings import Settings, secrets

if TYPE_CHECKING:
    from infra.lineage.events import Kind, Named, State
    from infra.lineage.sending import Sending

NOTHING: Final = DataSets()
Look = Callable[[], DataSets]
"""What a run reads and writes, looked up when it is told."""


@dataclass
class Told:
    """A run that is told: `look` is asked for its data sets each time."""

    reporter: "Reporter"
    named: "Named"
    look: Look
    _next: float = field(default=0.0, init=False, repr=False)

    def running(self) -> None:
        """Tell that it goes on, unless that was told a moment ago."""
        if (now := time.monotonic()) >= self._next:
            if self._next:
                self.tell("RUNNING")
            self._next = now + self.reporter.settings.lineage.every_s

    def tell(self, state: "State", error: str | None = None) -> None:
        """Hand on an event with what the run's data sets are now."""
        from infra.lineage.events import event  # noqa: PLC0415 - what is off need not be loaded

        reporter = self.reporter
        try:
            told = event(self.named, state, self.look(), at=reporter.now(), error=error)
        except Exception as fault:  # noqa: BLE001 - whatever is wrong with tables or broker, the run itself will say
            reporter.warn(f"a lineage event of {self.named.job} was sent without data sets: {fault}")
            told = event(self.named, state, NOTHING, at=reporter.now(), error=error)
        if reporter.sending is not None:
            reporter.sending.send(told)


@dataclass(frozen=True)
class Reporter:
    """Tells runs, where the settings ask for it; else it does nothing."""

    settings: Settings
    now: Callable[[], datetime]
    warn: Callable[[str], object]
    sending: "Sending | None" = None

    @contextmanager
    def run(self, job: str, kind: "Kind", look: Look, *, release: int) -> Iterator[Told | None]:
        """A run of a job from here to the block's end; None if nothing is told."""
        if self.sending is None:
            yield None
            return
        from openlineage.client.uuid import generate_new_uuid  # noqa: PLC0415 - what is off need not be loaded

        from infra.lineage.events import Named  # noqa: PLC0415 - likewise

        lineage = self.settings.lineage
        told = Told(self, Named(str(generate_new_uuid()), lineage.namespace, job, kind, release, os.getpid()), look)
        told.tell("START")
        try:
            yield told
        except BaseException as error:
            told.tell("FAIL", str(without(str(error) or type(error).__name__, secrets(self.settings))))
            raise
        told.tell("COMPLETE")


@contextmanager
def reporting(settings: Settings, *, now: Callable[[], datetime], warn: Callable[[str], object]) -> Iterator[Reporter]:
    """A reporter until the block ends, which then waits, at most as long as the settings say, for its events to be taken."""
    if not (settings.lineage.url or settings.lineage.file):
        yield Reporter(settings, now, warn)
        return
    from infra.lineage.sending import Sending  # noqa: PLC0415 - what is off need not be loaded

    sending = Sending(settings, warn)
    try:
        yield Reporter(settings, now, warn, sending)
    finally:
        sending.close()
