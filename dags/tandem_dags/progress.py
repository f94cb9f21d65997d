"""How far publications have come: by the hours that ended, and by positions."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

HOURS: Final = "%Y-%m-%dT%H:%M:%S"
_HOUR: Final = timedelta(hours=1)
_MOST: Final = 24 * 14


def ended(since: datetime | None, until: datetime) -> list[str]:
    """The hours that ended in `(since, until]`, as partition keys; the last one alone if nothing is known of before.

    At most two weeks of them.
    """
    end = _hour_of(until)
    # Airflow gives a proxy of nothing, which is not None.
    first = _hour_of(since) if since else end - _HOUR
    number = min(_MOST, (end - first) // _HOUR)
    return [(end - n * _HOUR).strftime(HOURS) for n in range(number, 0, -1)]


def at_or_below(position: Mapping[str, Mapping[str, int]], cut: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether everything below the position is below the cut."""
    return all(
        int(offset) <= int(cut.get(topic, {}).get(partition, 0))
        for topic, partitions in position.items()
        for partition, offset in partitions.items()
    )


def _hour_of(at: datetime) -> datetime:
    """Its hour, as a plain datetime: what Airflow gives is a proxy of a pendulum, which does not subtract from others."""
    return datetime.fromtimestamp(at.timestamp(), UTC).replace(minute=0, second=0, microsecond=0)
