"""Since when commits lack records of the log, as far as a reader knows: from polls of the log's end, or from commits alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tandem.ledger.log.positions import LOG_START, Position
from tandem.serving.read.snapshot import Snapshot


@dataclass
class BacklogAge:
    """Remembers, by source, an end of the log that no commit counts yet, and when it was first seen.

    Hot commits do not show whether a speed layer makes progress, so they do not count here.
    """

    _seen: dict[str, tuple[datetime, Position]] = field(default_factory=dict)

    def look(self, ends: Mapping[str, Position], snapshot: Snapshot, *, now: datetime) -> datetime | None:
        """Since when commits lack records of a source; None if they have all seen records. `ends` are those at `now`."""
        for source, end in ends.items():
            tail = snapshot.tails.get(source)
            counted = LOG_START if tail is None else tail.committed
            if source in self._seen and self._seen[source][1].at_or_below(counted):
                del self._seen[source]
            if source not in self._seen and not end.at_or_below(counted):
                self._seen[source] = (now, end)
        return min((since for since, _ in self._seen.values()), default=None)


def behind_since(snapshot: Snapshot, *, now: datetime, lately: timedelta) -> datetime | None:
    """Until when the log is counted, of a source that commits now and did not reach its end; None without such a source.

    A source whose newest commit is older than `lately` may be idle, so it is ignored.
    """
    newest = [tail.commits[-1] for tail in snapshot.tails.values() if tail.commits]
    recent = [one for one in newest if one.at is not None and now - one.at <= lately]
    return min((one.caught_up for one in recent if one.caught_up is not None), default=None)
