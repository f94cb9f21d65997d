"""When days of the calendar begin, by Python's own rules for wall clocks."""

from datetime import UTC, date, datetime, time
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

from tandem.views.source.time_notation import Zone


def first_instant(day: date, zone: Zone) -> datetime:
    """Midnight of a day in a zone: where clocks show it twice, what `fold` says; where they skip it, the time that follows."""
    first = datetime.combine(day, time(), clocks(zone.name))
    second = first.replace(fold=1)
    twice = first.astimezone(UTC) < second.astimezone(UTC)
    return (second if twice and zone.fold == "second" else first).astimezone(UTC)


@lru_cache(maxsize=128)
def clocks(zone: str) -> ZoneInfo:
    """The pinned rules, not the machine's."""
    with resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=zone)
