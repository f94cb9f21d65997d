"""Windows that are days, weeks or months on the wall clocks of a time zone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.instant import microseconds, time_of
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType
from tandem.views.time_zone import ZONES, time_zone
from tandem.views.windows.placement import BOUNDS, WINDOW_COLUMNS, EventInputs, Placement, Step, Steps, Timing, same, timestamp

Unit = Literal["day", "week", "month"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)

_STARTS: Final = "_window_start"
_ENDS: Final = "_window_end"
_FIRST_YEAR: Final = 3
_LAST_YEAR: Final = 9997
YEARS: Final = (_FIRST_YEAR, _LAST_YEAR)
"""The first and last year whose times have windows."""

_YEAR_START: Final = (1, 1)


@dataclass(frozen=True)
class Calendar:
    """Days, weeks (from Monday on) or months of a time zone, each from its first instant in the zone on.

    A day on which clocks change has 23 or 25 hours there. Zones are those of the IANA time zone
    database that Tandem is pinned to. Events before the year 3 or after 9997 are rejected.
    """

    unit: Unit
    zone: str

    def __post_init__(self) -> None:
        """Raises DefinitionError for a unit or a zone that does not exist."""
        if self.unit not in UNITS:
            raise DefinitionError(f"no calendar window of {self.unit!r}; units: {', '.join(UNITS)}")
        time_zone(self.zone)

    def __str__(self) -> str:
        return call("calendar", self.unit, zone=self.zone)

    @property
    def inputs(self) -> tuple[str, ...]:
        """None: the window depends on the event time alone."""
        return ()

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:  # noqa: ARG002  it has no inputs
        """One state per window. An event's window is looked up among the starts of all windows."""

        def placed(events: pa.Table, keys: Sequence[str]) -> pa.Table:  # noqa: ARG001  of any key
            return self._placed(events, source.time_column)

        bounds = dict(zip(WINDOW_COLUMNS, (timestamp(_STARTS), timestamp(_ENDS)), strict=True))
        columns = {_STARTS: _STARTS, _ENDS: _ENDS}
        return Placement(
            Steps(fold=Step(columns, finish=bounds, prepare=placed), merge=same(BOUNDS)),
            events=EventInputs(columns, objections=((f"{_STARTS} IS NULL", "out_of_range"),)),
            timing=Timing(ends=_ENDS, slice_at=self._slice_at, first_at=self._first_at),
            pinned=(ZONES,),
        )

    def _slice_at(self, time: datetime) -> tuple[datetime, datetime]:
        year = min(max(time.year, _FIRST_YEAR), _LAST_YEAR)
        starts = np.concatenate([window_starts(self.unit, self.zone, near) for near in (year - 1, year, year + 1)])
        place = int(np.clip(np.searchsorted(starts, microseconds(time), side="right"), 1, len(starts) - 1))
        return time_of(int(starts[place - 1])), time_of(int(starts[place]))

    def _first_at(self, time: datetime) -> datetime:
        start, end = self._slice_at(time)
        return start if start >= time else end

    def _placed(self, events: pa.Table, event_time: str) -> pa.Table:
        """The events with the start and the end of their windows in microseconds since 1970, null beyond the calendar."""
        times = arrays.integers(arrays.whole(events[event_time]))
        years = times.astype("datetime64[us]").astype("datetime64[Y]").astype(np.int64) + 1970
        inside = (years >= _FIRST_YEAR) & (years <= _LAST_YEAR)
        # Only years that have events, with their neighbours, so that distant years cost no more.
        there = np.unique(years[inside]) if inside.any() else np.array([1970])
        needed = np.unique(np.concatenate([there - 1, there, there + 1])).tolist()
        starts = np.concatenate([window_starts(self.unit, self.zone, year) for year in needed])
        places = np.clip(np.searchsorted(starts, times, side="right"), 1, len(starts) - 1)
        columns = [(_STARTS, starts[places - 1]), (_ENDS, starts[places])]
        for name, values in columns:
            events = events.append_column(name, arrays.from_numpy(values, pa.int64(), inside))
        return events


def calendar(unit: Unit, *, zone: str) -> Calendar:
    """Windows by the calendar: `calendar("day", zone="Europe/Berlin")`."""
    return Calendar(unit, zone)


@lru_cache(maxsize=4096)
def window_starts(unit: Unit, zone: str, year: int) -> npt.NDArray[np.int64]:
    """When the windows whose first day is in the year start, in microseconds since 1970."""
    clocks = time_zone(zone)
    # Where clocks skip midnight, the window starts when they skip; where they show it twice, at the first time. Where they
    # skip a whole day, it and the next day start at the same instant, and the later one counts.
    return np.array([microseconds(datetime(d.year, d.month, d.day, tzinfo=clocks).astimezone(UTC)) for d in _days(unit, year)])


def _days(unit: Unit, year: int) -> list[date]:
    if unit == "month":
        return [date(year, month, 1) for month in range(1, 13)]
    first = date(year, *_YEAR_START)
    days = [first + timedelta(days=number) for number in range((date(year + 1, *_YEAR_START) - first).days)]
    return days if unit == "day" else [day for day in days if day.weekday() == 0]
