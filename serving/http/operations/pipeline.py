"""The positions of log, archive and releases for `/status`: cached for some seconds, and no request waits long for them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.report import HotTailState, hot_tails
from tandem.ledger.log.retention import UntilLoss
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Releases
from tandem.serving.status.log_ends import LogEnd, log_ends
from tandem.serving.status.positions import ArchivePosition, archived
from tandem.serving.status.retention import unarchived
from tandem.serving.status.standing_releases import StandingRelease, standing_releases
from tandem.serving.status.ttl_cache import TtlCache
from tandem.views.errors import said_by
from tandem.views.source.source import Source

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
    """By source the state of the archive, and the releases beside the live one."""

    archives: Mapping[str, ArchivePosition]
    standing: tuple[StandingRelease, ...]


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
        return StoredTables(
            archives, tuple(standing_releases(self.tables, live, days=self.settings.keep.release_days, now=self.now()))
        )


def _unknown(sources: Iterable[Source], why: str) -> PipelineLog:
    return PipelineLog({source.name: LogEnd(problem=why) for source in sources}, {})
