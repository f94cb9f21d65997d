"""Delivers lineage events in a separate thread, so that a run waits for them only at its end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import Full, Queue
from threading import Thread
from typing import Final

from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider

from tandem.infra.logs.files import LogFile, bounds
from tandem.infra.settings import Settings

_WAITING: Final = 200


@dataclass
class Sending:
    """Delivers events, in order, to a server and a file. An event that is not accepted is reported by `warn` and dropped."""

    settings: Settings
    warn: Callable[[str], object]
    _queue: "Queue[RunEvent | None]" = field(default_factory=lambda: Queue(_WAITING), init=False, repr=False)
    _down: dict[str, bool] = field(default_factory=dict, init=False, repr=False)
    _dropped: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self._thread = Thread(target=self._work, name="lineage", daemon=True)
        self._thread.start()

    def send(self, event: RunEvent) -> None:
        """Queue an event; returns at once. If the queue is full, the event is dropped and counted."""
        try:
            self._queue.put_nowait(event)
        except Full:
            self._dropped += 1

    def close(self) -> None:
        """Wait until all events are delivered, at most as long as the settings allow."""
        waits = self.settings.lineage.timeout_s
        try:
            self._queue.put_nowait(None)
            self._thread.join(waits)
        except Full:
            pass
        if left := self._dropped + (self._queue.qsize() if self._thread.is_alive() else 0):
            self.warn(f"{left} lineage events were not delivered within {waits} s and are dropped")

    def _work(self) -> None:
        targets = list(self._targets())
        while (event := self._queue.get()) is not None:
            for where, deliver in targets:
                self._deliver(event, where, deliver)

    def _targets(self) -> Iterator[tuple[str, Callable[[RunEvent], object]]]:
        """Each destination, and the function that delivers an event to it or raises."""
        lineage = self.settings.lineage
        if lineage.file:
            file = LogFile(self.settings.folder / lineage.file, bounds(self.settings.logs))
            yield str(file.path), lambda event: file.append(Serde.to_json(event))
        if lineage.url:
            auth = ApiKeyTokenProvider({"api_key": lineage.token}) if lineage.token else TokenProvider({})
            # No retry: the next event is the next try, and nothing may wait for long.
            server = HttpTransport(HttpConfig(lineage.url, timeout=lineage.timeout_s, auth=auth, retry={"total": 0}))
            yield lineage.url, server.emit

    def _deliver(self, event: RunEvent, where: str, deliver: Callable[[RunEvent], object]) -> None:
        """Warn once when deliveries begin to fail, and once when they succeed again."""
        try:
            deliver(event)
        except Exception as error:  # noqa: BLE001 - whatever a server or a disk raises, the run continues
            if not self._down.get(where):
                self.warn(f"{where} does not accept lineage events; they are dropped until it does: {error}")
            self._down[where] = True
            return
        if self._down.pop(where, False):
            self.warn(f"{where} accepts lineage events again")
