"""Which events of a key share an answer, said event by event for every kind of window."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from tandem.views.oracle.counted_events import CountedRow
from tandem.views.oracle.days import clocks
from tandem.views.windows import (
    AllTime,
    Calendar,
    CountWindow,
    Delta,
    Hopping,
    Punctuation,
    Session,
    SlidingCountWindow,
    Tumbling,
    Window,
)

Bounds = tuple[Any, ...]
"""Start and end of a window; of one in the order of the log topic id, partition and, where it has one, number too."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_YEAR: Final = 3
_LAST_YEAR: Final = 9997
_AROUND: Final = 33
"""This many days before and after a day, and of any unit one begins."""


def leaves_calendar(window: Window, at: datetime) -> bool:
    """Whether an event of that time is rejected, because one of its windows would not lie in the years that readers have."""
    if isinstance(window, Calendar):
        return not _FIRST_YEAR <= at.year <= _LAST_YEAR
    try:
        if isinstance(window, Session):
            at + window.gap
        elif isinstance(window, Tumbling | Hopping):
            list(_in_time(window, at))
    except OverflowError:
        return True
    return False


def windows(window: Window, rows: Sequence[CountedRow]) -> Iterator[tuple[Bounds, list[CountedRow]]]:
    """The windows of one key, each with its rows; a row may be in several. `rows` are all that count, in any order."""
    match window:
        case AllTime():
            if rows:
                yield (None, None), list(rows)
        case Tumbling() | Hopping():
            yield from _together(rows, lambda at: _in_time(window, at))
        case Calendar():
            yield from _together(rows, lambda at: iter([_by_calendar(window.unit, window.zone, at)]))
        case Session():
            yield from _sessions(window.gap, rows)
        case _:
            yield from _in_order(window, rows)


def starts(window: Window, at: datetime) -> list[datetime]:
    """When the windows begin that hold a time; the time itself if they would leave the calendar. Windows begin at a time."""
    if leaves_calendar(window, at):
        return [at]
    if isinstance(window, Calendar):
        return [_by_calendar(window.unit, window.zone, at)[0]]
    assert isinstance(window, Tumbling | Hopping)
    return [bounds[0] for bounds in _in_time(window, at)]


def _together(
    rows: Sequence[CountedRow], bounds: Callable[[datetime], Iterator[Bounds]]
) -> Iterator[tuple[Bounds, list[CountedRow]]]:
    found: dict[Bounds, list[CountedRow]] = defaultdict(list)
    for row in rows:
        for each in bounds(row.at):
            found[each].append(row)
    yield from found.items()


def _in_time(window: Tumbling | Hopping, at: datetime) -> Iterator[Bounds]:
    """All `[n * every, n * every + size)` that hold the time. Raises OverflowError if the calendar does not hold one of them."""
    every = window.every if isinstance(window, Hopping) else window.size
    number = (at - _EPOCH) // every
    while at < (start := _EPOCH + number * every) + window.size:
        yield start, start + window.size
        number -= 1


def _by_calendar(unit: str, zone: str, at: datetime) -> Bounds:
    """From the last midnight that begins a day, week or month before the time, to the first after it."""
    starts = _starts(unit, zone, at.astimezone(clocks(zone)).date())
    return next((start, end) for start, end in pairwise(starts) if start <= at < end)


@lru_cache(maxsize=4096)
def _starts(unit: str, zone: str, today: date) -> list[datetime]:
    """When the days, weeks or months around a day begin: clocks that are put back at midnight show one again that was over."""
    around = (today + timedelta(days=step) for step in range(-_AROUND, _AROUND + 1))
    return sorted({_midnight(_first_day(unit, day), zone) for day in around})


def _first_day(unit: str, day: date) -> date:
    return day.replace(day=1) if unit == "month" else day - timedelta(days=day.weekday()) if unit == "week" else day


def _midnight(day: date, zone: str) -> datetime:
    return datetime.combine(day, time(), clocks(zone)).astimezone(UTC)


def _sessions(gap: timedelta, rows: Sequence[CountedRow]) -> Iterator[tuple[Bounds, list[CountedRow]]]:
    held: list[CountedRow] = []
    for row in sorted(rows, key=lambda row: row.at):
        if held and row.at - held[-1].at >= gap:
            yield (held[0].at, held[-1].at + gap), held
            held = []
        held.append(row)
    if held:
        yield (held[0].at, held[-1].at + gap), held


def _in_order(window: Window, rows: Sequence[CountedRow]) -> Iterator[tuple[Bounds, list[CountedRow]]]:
    """Windows over the rows of each partition as the log has them."""
    partitions: dict[tuple[str, int], list[CountedRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.place):
        partitions[row.place[:2]].append(row)
    for partition, inside in partitions.items():
        for number, held in enumerate(_cut(window, inside)):
            bounds = (min(row.at for row in held), max(row.at for row in held), *partition)
            yield (bounds if isinstance(window, SlidingCountWindow) else (*bounds, number)), held


def _cut(window: Window, rows: list[CountedRow]) -> Iterator[list[CountedRow]]:
    match window:
        case SlidingCountWindow():
            yield rows[-window.size :]
        case CountWindow():
            yield from (rows[start : start + window.size] for start in range(0, len(rows), window.size))
        case Delta():
            yield from _moved(window, rows)
        case Punctuation():
            held: list[CountedRow] = []
            for row in rows:
                held.append(row)
                if row.windowed is True:
                    yield held
                    held = []
            if held:
                yield held
        case _:
            raise NotImplementedError(f"the plain oracle knows no window {window}")


def _moved(window: Delta, rows: list[CountedRow]) -> Iterator[list[CountedRow]]:
    held: list[CountedRow] = []
    first: Any = None
    for row in rows:
        value = row.windowed
        if value is not None and first is not None and _apart(value, first) >= _by(window, value):
            yield held
            held, first = [], None
        first = value if first is None else first
        held.append(row)
    yield held


def _apart(value: Any, first: Any) -> Any:
    return abs(value - first) if isinstance(value, float) else abs(Fraction(value) - Fraction(first))


def _by(window: Delta, value: Any) -> Any:
    """As it is written: 0.1 is a tenth, but of doubles the double nearest to it."""
    return float(window.by) if isinstance(value, float) else Fraction(str(window.by))
