"""The state of each part as the server last read it, for the header of every answer, /readyz, /status and /metrics."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from structlog.typing import FilteringBoundLogger

from tandem.infra.settings import Settings
from tandem.serving.read.outcome import Failed
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.status.part_signs import BacklogAge, part_states
from tandem.serving.status.part_state import NEEDED, SPEED, PartState, unknown
from tandem.serving.status.pipeline import TtlCache
from tandem.serving.status.sources import LogEnd, log_ends
from tandem.views.source.source import Source

HEADER: Final = "Tandem-Parts"
"""The header that every answer has: a dictionary of parts, each with its state and since when (RFC 9651)."""
LOG_S: Final = 3.0
"""Seconds for which the end of a log is cached."""
_EVERY_S: Final = 0.5
_PATIENCE_S: Final = 0.8
_UNKNOWN_S: Final = 10.0
"""Seconds after which states that could not be read again count as unknown."""


@dataclass
class Parts:
    """Reads the parts' files about twice a second while it is `open`; `now` returns the time of day. For one event loop.

    `newest` returns what answers count, `sources` those of the live release.

    If no speed layer runs in this state folder, it also polls the broker from time to time whether the log's events are counted.
    """

    settings: Settings
    now: Callable[[], datetime]
    newest: Callable[[], Snapshot | Failed]
    sources: Callable[[], list[Source]]
    log_ends: TtlCache[Mapping[str, LogEnd]]
    log: FilteringBoundLogger
    _states: tuple[PartState, ...] = field(default=(), init=False, repr=False)
    _header: str = field(default="", init=False, repr=False)
    _looked: float = field(default=float("-inf"), init=False, repr=False)
    _backlog_age: BacklogAge = field(default_factory=BacklogAge, init=False, repr=False)
    _why: str = field(default="", init=False, repr=False)
    _since: datetime | None = field(default=None, init=False, repr=False)

    @property
    def states(self) -> tuple[PartState, ...]:
        """The states, at most half a second old. If no read succeeds, the needed parts are unknown, and red."""
        seconds = self.log_ends.clock() - self._looked
        if seconds <= _UNKNOWN_S:
            return self._states
        since = None if seconds == float("inf") else self.now() - timedelta(seconds=seconds)
        return tuple(unknown(one.part, since) for one in self._states if one.part in NEEDED)

    @property
    def header(self) -> str:
        """The states as a header's value."""
        states = self.states
        return self._header if states is self._states else header_of(states)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the states current until the context ends."""
        await self.look()
        following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            following.cancel()

    async def look(self) -> None:
        """Read them now."""
        newest = self.newest()
        snapshot = newest if isinstance(newest, Snapshot) else None
        states = partial(part_states, self.settings, now=self.now(), snapshot=snapshot, uncounted_since=self._since)
        self._states = await asyncio.to_thread(states)
        self._header, self._looked = header_of(self._states), self.log_ends.clock()

    def unready(self) -> PartState | None:
        """A needed part that has been red for longer than the settings allow; None if there is none."""
        bound, now = timedelta(seconds=self.settings.serving.stale_s), self.now()
        late = (one for one in self.states if one.red and one.part in NEEDED and (one.since is None or now - one.since > bound))
        return next(late, None)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            why = ""
            try:
                await self._ask_the_log()
                await self.look()
            except OSError as error:  # the state folder may come back; until then the parts are not reported as healthy
                why = str(error)
            if why and why != self._why:
                self.log.error("the state of the parts cannot be read", why=why)
            self._why = why

    async def _ask_the_log(self) -> None:
        """Poll the log's end, if no sign here shows whether a speed layer makes progress."""
        unknown = any(one.part == SPEED and (one.state == "not_started" or self._since is not None) for one in self._states)
        newest = self.newest()
        if not unknown or not isinstance(newest, Snapshot):
            self._since = None
            return
        try:
            asked = await self.log_ends.get_within(_PATIENCE_S, partial(log_ends, self.settings, self.sources()))
        except Exception:  # noqa: BLE001 - whatever the client raises: what is not known makes nothing red
            asked = None
        if asked is not None:
            ends = {source: end.position for source, end in asked.items() if end.position is not None}
            self._since = self._backlog_age.look(ends, newest, now=self.now())


def header_of(states: tuple[PartState, ...]) -> str:
    """The parts as a structured dictionary: `broker=running, speed=stuck;since="2026-11-01T08:00:00Z"`."""
    return ", ".join(_member(one) for one in states)


def _member(one: PartState) -> str:
    told = one.to_json()
    since = "" if one.since is None or one.state == "running" else f';since="{told["since"]}"'
    return f"{one.part}={one.state}{since}"
