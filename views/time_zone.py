"""Time zones of the pinned IANA database, not of the machine's own."""

from functools import lru_cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

from tandem.views.errors import DefinitionError, listed

ZONES: Final = "tzdata"
"""The package with the database. Its version decides what a local time means, so it is a part of fingerprints."""


def time_zone(name: str) -> ZoneInfo:
    """The zone of this name; raises DefinitionError if there is none."""
    if not isinstance(name, str):
        raise DefinitionError(f"zone {name!r} is not the name of a time zone, such as 'Europe/Berlin'")
    return _rules(name)


@lru_cache(maxsize=128)
def _rules(name: str) -> ZoneInfo:
    zones = resources.files(ZONES)
    names = zones.joinpath("zones").read_text("utf-8").split()
    if name not in names:
        raise DefinitionError(f"no time zone {name!r}; zones: {listed(name, names, limit=4)}")
    with zones.joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)
