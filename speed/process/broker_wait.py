"""Wait for a broker that does not answer: with back-off, reported in `status`, up to `speed.broker_wait_s`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final, TypeVar

from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.speed.progress import WaitingSource
from tandem.speed.source.follow import Surroundings
from tandem.views.source.source import Source

_T = TypeVar("_T")

_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 15.0


@dataclass(frozen=True)
class Wait:
    """How a source of a release waits for its broker, until `stop` is set."""

    around: Surroundings
    release: int
    source: Source
    stop: Event

    def through(self, step: Callable[[], _T]) -> _T | None:
        """Call `step` until the broker answers, and return its result; None if `stop` is set before.

        Raises NoBroker after `speed.broker_wait_s`, BrokerRefused at once, and what else the step raises.
        """
        while not self.stop.is_set():
            try:
                found = step()
            except kafka.NoBroker as error:
                self.until_there(error)
            else:
                return found
        return None

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
                    kafka.topics(self.around.connection, self.source.topics)
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
