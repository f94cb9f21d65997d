"""Windows of fixed length in event time, aligned to 1970: tumbling, hopping, and one for all time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from math import gcd
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.definition_text import call, span
from tandem.views.errors import DefinitionError
from tandem.views.instant import FIRST, LAST, MICROSECOND, microseconds, nearest_time
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType
from tandem.views.sql.engine import quoted
from tandem.views.windows.placement import (
    BOUNDS,
    WINDOW_COLUMNS,
    EventInputs,
    Placement,
    Step,
    Steps,
    Timing,
    epoch_us,
    length,
    same,
    timestamp,
)

_NUMBER: Final = "_window"
_SHORTEST: Final = timedelta(seconds=1)
_LONGEST: Final = timedelta(days=366_000)
_MOST_SLICES: Final = 1_500


@dataclass(frozen=True)
class Tumbling:
    """Windows `[n * size, (n + 1) * size)` for every whole n, counted from 1970-01-01T00:00:00Z, before it too.

    Every event is in exactly one. A size of a week therefore starts on Thursdays, as 1970 did.
    """

    size: timedelta

    def __post_init__(self) -> None:
        _check_span("tumbling", "size", self.size)

    def __str__(self) -> str:
        return call("tumbling", **span(self.size))

    @property
    def inputs(self) -> tuple[str, ...]:
        """None: the window depends on the event time alone."""
        return ()

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:  # noqa: ARG002  it has no inputs
        """One slice per window."""
        return _sliced(source, self.size, self.size)


@dataclass(frozen=True)
class Hopping:
    """Windows `[n * every, n * every + size)` for every whole n, counted from 1970-01-01T00:00:00Z.

    An event is in size / every windows. States are kept per slice, whose length is the greatest common divisor of size and
    every, so overlapping windows cost no more than their slices.
    """

    size: timedelta
    every: timedelta

    def __post_init__(self) -> None:
        """Raises DefinitionError if the windows leave gaps or have too many slices."""
        _check_span("hopping", "size", self.size)
        _check_span("hopping", "hop", self.every)
        if self.every > self.size:
            raise DefinitionError(f"a hopping window of {self.size} every {self.every} leaves gaps between windows")
        if self.size // self.slice > _MOST_SLICES:
            raise DefinitionError(
                f"a hopping window of {self.size} every {self.every} has {self.size // self.slice} slices of {self.slice}; "
                f"at most {_MOST_SLICES} are possible"
            )

    @property
    def slice(self) -> timedelta:
        """The length of a slice."""
        return gcd(self.size // MICROSECOND, self.every // MICROSECOND) * MICROSECOND

    def __str__(self) -> str:
        return call("hopping", self.size, every=self.every)

    @property
    def inputs(self) -> tuple[str, ...]:
        """None: the window depends on the event time alone."""
        return ()

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:  # noqa: ARG002  it has no inputs
        """States are slices; an answer has a row for each window with at least one slice."""
        return _sliced(source, self.slice, self.size, self.every)


@dataclass(frozen=True)
class AllTime:
    """One window without bounds; its `window_start` and `window_end` are null."""

    def __str__(self) -> str:
        return "all_time()"

    @property
    def inputs(self) -> tuple[str, ...]:
        """None: every event is in the window."""
        return ()

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:  # noqa: ARG002  it looks at neither
        """All events are one window."""
        nothing = dict.fromkeys(WINDOW_COLUMNS, "CAST(NULL AS TIMESTAMPTZ)")
        return Placement(Steps(Step({}, finish=nothing), same(BOUNDS)), timing=Timing(bounded=False))


@dataclass(frozen=True)
class Current(AllTime):
    """The window of all time, whose answers leave out the keys that are gone, by the part `gone` of the states in a column.

    The states stay, because another layer may have earlier versions of the key.
    """

    column: str

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:
        """All events are one window, and rows that are gone are left out when the answer is made."""
        placement = super().bind(source, types)
        there = f"{quoted(self.column)}.gone IS NOT TRUE"

        def layer(rows: str, within: str) -> str:  # noqa: ARG001  each row decides for itself
            return f"(SELECT * FROM {rows} WHERE {there})"

        return replace(placement, steps=replace(placement.steps, arrange=replace(same(BOUNDS), layer=layer)))

    def remaining(self, merged: pa.Table) -> pa.Table:
        """The merged states of keys that are not gone: what the step `arrange` makes of them, without another grouping."""
        gone = pc.struct_field(merged[self.column], "gone")
        return merged.filter(pc.invert(pc.fill_null(gone, False)))


def tumbling(*, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Tumbling:
    """Back-to-back windows of equal size aligned to 1970-01-01T00:00:00Z: `tumbling(minutes=1)`, `tumbling(days=7)`."""
    return Tumbling(length("a tumbling window's size", days=days, hours=hours, minutes=minutes, seconds=seconds))


def hopping(size: timedelta, *, every: timedelta) -> Hopping:
    """Overlapping windows: `hopping(timedelta(seconds=30), every=timedelta(seconds=10))`."""
    return Hopping(size, every)


def all_time() -> AllTime:
    """One window per key over the whole log."""
    return AllTime()


def _check_span(kind: str, what: str, span: timedelta) -> None:
    if not isinstance(span, timedelta):
        raise DefinitionError(f"a {kind} window's {what} is a timedelta, such as timedelta(minutes=10), not {span!r}")
    if not _SHORTEST <= span <= _LONGEST:
        raise DefinitionError(
            f"a {kind} window's {what} of {span} is not possible: it is a timedelta of at least 1 second and at most 1000 years"
        )


def _sliced(source: Source, slice_: timedelta, size: timedelta, every: timedelta | None = None) -> Placement:
    """States per slice. Rejects events whose windows would reach outside the calendar, if `plausible` allows such events."""
    us, reach, step = slice_ // MICROSECOND, (size - slice_) // MICROSECOND, every or size
    # SQL rounds quotients towards zero, so windows are numbered from one before the year 1 on: no number is negative.
    before = -FIRST // us + 1
    start, end = (f"({_NUMBER} - {before}) * {us}", f"({_NUMBER} - {before}) * {us} + {us}")
    low, high = -(-(FIRST + reach) // us) + before, (LAST - reach - us) // us + before
    plausible = [microseconds(time) // us + before for time in source.plausible]
    # A `prepare` function may change event times.
    inside = source.prepare is None and low <= plausible[0] and plausible[1] <= high
    return Placement(
        Steps(
            fold=Step({_NUMBER: _NUMBER}, finish=dict(zip(WINDOW_COLUMNS, map(timestamp, (start, end)), strict=True))),
            merge=same(BOUNDS),
            arrange=None if every is None else _windows_of_slices(us, size // MICROSECOND, every // MICROSECOND),
        ),
        events=EventInputs(
            {_NUMBER: f"({epoch_us(source.time_column)} + {before * us}) // {us}"},
            objections=() if inside else ((f"{_NUMBER} NOT BETWEEN {low} AND {high}", "out_of_range"),),
        ),
        timing=Timing(
            ends=end,
            slice=slice_,
            reach=size - slice_,
            slice_at=partial(_slice_at, us),
            first_at=partial(_first_at, step // MICROSECOND),
            overlap=size - step,
        ),
    )


def _slice_at(us: int, time: datetime) -> tuple[datetime, datetime]:
    start = microseconds(time) // us * us
    return nearest_time(start), nearest_time(start + us)


def _first_at(step: int, time: datetime) -> datetime:
    return nearest_time(-(-microseconds(time) // step) * step)


def _windows_of_slices(slice_: int, size: int, every: int) -> Step:
    """Each slice in every window that holds it."""
    shift = (-FIRST // every + 2) * every  # so that no dividend is negative
    first = f"({epoch_us(WINDOW_COLUMNS[0])} + {slice_ - size + shift} + {every - 1}) // {every} * {every} - {shift}"
    last = f"({epoch_us(WINDOW_COLUMNS[0])} + {shift}) // {every} * {every} - {shift}"

    def layer(rows: str, within: str) -> str:  # noqa: ARG001  slices of different keys go the same way
        return f"(SELECT *, unnest(range({first}, {last} + 1, {every})) AS {_NUMBER} FROM {rows})"

    bounds = (timestamp(_NUMBER), timestamp(f"{_NUMBER} + {size}"))
    return Step({_NUMBER: _NUMBER}, finish=dict(zip(WINDOW_COLUMNS, bounds, strict=True)), layer=layer)
