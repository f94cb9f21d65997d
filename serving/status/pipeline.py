"""The positions of log, archive and releases for `/status`: cached for some seconds, and no request waits long for them."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Generic, TypeVar

from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.report import HotTailState, hot_tails
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.retention import UntilLoss
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Releases
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.status.rejected_tails import ArchiveTail, archive_tail
from tandem.serving.status.releases import StandingRelease, standing_releases
from tandem.serving.status.sinks import SinkState, sink_states
from tandem.serving.status.sources import ArchivePosition, LogEnd, archived, log_ends, unarchived
from tandem.views.errors import said_by
from tandem.views.source.source import Source

T = TypeVar("T")


@dataclass
class TtlCache(Generic[T]):
    """One value, cached for `kept` seconds; one thread at a time computes it. For one event loop.

    `clock` returns monotonic seconds, in any thread.
    """

    kept: float
    clock: Callable[[], float]
    _looked: "Future[tuple[float, T]] | None" = field(default=None, init=False, repr=False)

    async def get(self, look: Callable[[], T]) -> T:
        """The cached value, else the result of `look`. Raises its errors."""
        looked = self._looked
        if looked is None or self._is_over(looked):
            looked = self._looked = Future()
            # A call that hangs holds up neither a request nor the process's end.
            threading.Thread(target=self._find, args=(looked, look), name="recent", daemon=True).start()
        # A caller that is cancelled does not cancel the answer of others.
        return (await asyncio.shield(asyncio.wrap_future(looked)))[1]

    async def get_within(self, seconds: float, look: Callable[[], T]) -> T | None:
        """The value; None if that takes longer. The computation continues, and the next caller gets its result."""
        try:
            async with asyncio.timeout(seconds):
                return await self.get(look)
        except TimeoutError:
            return None

    def _is_over(self, looked: "Future[tuple[float, T]]") -> bool:
        if not looked.done():
            return False
        return looked.exception() is not None or self.clock() - looked.result()[0] > self.kept

    def _find(self, looked: "Future[tuple[float, T]]", look: Callable[[], T]) -> None:
        try:
            found = look()
            looked.set_result((self.clock(), found))
        except BaseException as error:  # noqa: BLE001 - it is raised in the waiting callers
            looked.set_exception(error)


_KEPT_S: Final = 3.0
_PATIENCE_S: Final = 0.8
"""Seconds that a request waits for the broker: less than any request's limit."""


@dataclass(frozen=True)
class PipelineLog:
    """By source, the end of its topics, how long unarchived records are safe, if the broker answers, and its hot tail, if any."""

    ends: Mapping[str, LogEnd]
    until_loss: Mapping[str, UntilLoss]
    hot: Mapping[str, HotTailState | None] = field(default_factory=dict)

    def end(self, source: str) -> LogEnd:
        """Where a source's topics end, or why that is not known."""
        return self.ends.get(source) or LogEnd(problem="this source has not been polled at the broker yet")


@dataclass(frozen=True)
class StoredTables:
    """By source the state of the archive, its newest records and the names of topics by id; the releases beside the live one."""

    archives: Mapping[str, ArchivePosition]
    newest: Mapping[str, ArchiveTail]
    standing: tuple[StandingRelease, ...]
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass
class Pipeline:
    """Reads log and tables; `now` returns the time of day, `clock` monotonic seconds. For one event loop."""

    settings: Settings
    tables: Tables
    now: Callable[[], datetime]
    clock: Callable[[], float]
    _log: TtlCache[PipelineLog] = field(init=False, repr=False)
    _stored: TtlCache[StoredTables] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._log, self._stored = TtlCache(_KEPT_S, self.clock), TtlCache(_KEPT_S, self.clock)

    async def log(self, sources: Iterable[Source], *, release: int) -> PipelineLog:
        """The broker's answer about the sources, or why there is none; and their hot tails under a release."""
        wanted = list(sources)
        found = await self._log.get_within(_PATIENCE_S, lambda: self._ask(wanted))
        found = found or _unknown(wanted, f"the broker has not answered within {_PATIENCE_S} s")
        return replace(found, hot=hot_tails(self.settings, release, [source.name for source in wanted], clock=self.clock))

    async def stored(self, live: Publication) -> StoredTables:
        """What the tables hold besides the live publication. Raises TandemError."""
        return await self._stored.get(lambda: self._read(live))

    def sinks(self, snapshot: Snapshot) -> tuple[SinkState, ...]:
        """Where the sinks stand that have run in this state folder."""
        return sink_states(self.settings.folder, snapshot, now=self.now())

    def _ask(self, sources: list[Source]) -> PipelineLog:
        try:
            ends = log_ends(self.settings, sources)
            told = [source for source in sources if not ends[source.name].problem]
            return PipelineLog(ends, unarchived(self.settings, self.tables, told, now=self.now()))
        except Exception as error:  # noqa: BLE001 - whatever the client raises, the rest of the status is still reported
            return _unknown(sources, said_by(error))

    def _read(self, live: Publication) -> StoredTables:
        found = Releases(self.tables).load(live.release).sources
        archives = {name: archived(self.tables, name, decoder) for name, decoder in found.items()}
        newest = {name: archive_tail(self.tables, name, decoder) for name, decoder in found.items()}
        topics = {name: ArchiveLedger(self.tables, name).topic_names() for name in found}
        standing = standing_releases(self.tables, live, days=self.settings.keep.release_days, now=self.now())
        return StoredTables(archives, newest, tuple(standing), topics)


def _unknown(sources: Iterable[Source], why: str) -> PipelineLog:
    return PipelineLog({source.name: LogEnd(problem=why) for source in sources}, {})
