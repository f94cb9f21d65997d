"""The progress of publications: by the hours that ended, and by positions."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

HOURS: Final = "%Y-%m-%dT%H:%M:%S"
_HOUR: Final = timedelta(hours=1)
_MOST: Final = 24 * 14


def ended(since: datetime | None, until: datetime) -> list[str]:
    """The hours that ended in `(since, until]`, as partition keys: at most two weeks. Without `since`, only the last hour."""
    end = _hour_of(until)
    # For None Airflow returns a proxy, which is not None.
    first = _hour_of(since) if since else end - _HOUR
    number = min(_MOST, (end - first) // _HOUR)
    return [(end - n * _HOUR).strftime(HOURS) for n in range(number, 0, -1)]


def at_or_below(position: Mapping[str, Mapping[str, int | str]], cut: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether the position, whose offsets may be rendered templates, is at or below the cut."""
    return all(
        int(offset) <= int(cut.get(topic, {}).get(partition, 0))
        for topic, partitions in position.items()
        for partition, offset in partitions.items()
    )


def _hour_of(at: datetime) -> datetime:
    """The hour of a time, as a plain datetime: Airflow returns proxies of pendulum times, which do not support subtraction."""
    return datetime.fromtimestamp(at.timestamp(), UTC).replace(minute=0, second=0, microsecond=0)
