"""Session windows: they end when a key has had no event for a gap of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tandem.views.definition_text import call, span
from tandem.views.errors import DefinitionError
from tandem.views.instant import LAST, MICROSECOND, microseconds
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType
from tandem.views.sql.engine import quoted
from tandem.views.windows.placement import (
    WINDOW_COLUMNS,
    EventInputs,
    Layer,
    Placement,
    Step,
    Steps,
    Timing,
    epoch_us,
    length,
    timestamp,
)

_AT: Final = "_at"
_SESSION: Final = "_session"
_LONGEST: Final = timedelta(days=366)


@dataclass(frozen=True)
class Session:
    """A session has the events of a key of which each is less than `gap` after another one in event time.

    Its window is `[first event, last event + gap)`. States are one row per session of a part of the log. Merging unites sessions
    that overlap, so a late event, or one on the other side of a cut, may make one session of two.
    """

    gap: timedelta

    def __post_init__(self) -> None:
        """Raises DefinitionError for a gap that is not a timedelta from a microsecond to a year."""
        if not isinstance(self.gap, timedelta) or not MICROSECOND <= self.gap <= _LONGEST:
            raise DefinitionError(
                f"a session's gap of {self.gap} is not possible; expected a timedelta of at most {_LONGEST.days} days"
            )

    def __str__(self) -> str:
        return call("session", **span(self.gap, longest="hours"))

    @property
    def inputs(self) -> tuple[str, ...]:
        """None: the window depends on the event time alone."""
        return ()

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:  # noqa: ARG002  it has no inputs
        """A fold makes sessions of events, a merge makes sessions of sessions."""
        gap = self.gap // MICROSECOND
        end = LAST - gap
        start, to = map(quoted, WINDOW_COLUMNS)
        bounds = (timestamp(f"min({_AT})"), timestamp(f"max({_AT}) + {gap}"))
        inside = source.prepare is None and microseconds(source.plausible[1]) <= end
        return Placement(
            Steps(
                fold=Step(
                    {_SESSION: _SESSION}, dict(zip(WINDOW_COLUMNS, bounds, strict=True)), layer=_numbered(_AT, f"{_AT} + {gap}")
                ),
                merge=Step(
                    {_SESSION: _SESSION},
                    {WINDOW_COLUMNS[0]: f"min({start})", WINDOW_COLUMNS[1]: f"max({to})"},
                    layer=_numbered(start, to),
                ),
            ),
            events=EventInputs(
                {_AT: epoch_us(source.time_column)},
                objections=() if inside else ((f"{_AT} > {end}", "out_of_range"),),
            ),
            # An event whose own session has not ended can join a session that has.
            timing=Timing(ends=f"{_AT} + {gap}", grace=self.gap),
            independent=False,
        )


def session(*, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Session:
    """Windows that end when a key had no event for a while: `session(minutes=30)`."""
    return Session(length("a session's gap", hours=hours, minutes=minutes, seconds=seconds))


def _numbered(start: str, end: str) -> Layer:
    """Rows of intervals, each with the number of its session: a new session starts where no earlier interval reaches."""

    def layer(rows: str, within: str) -> str:
        # Rows with equal starts are peers in the sum, so their order in the maximum does not matter.
        before = f"(PARTITION BY {within} ORDER BY {start} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        fresh = f"CASE WHEN {start} < max({end}) OVER {before} THEN 0 ELSE 1 END"
        number = f"sum(_fresh) OVER (PARTITION BY {within} ORDER BY {start})"
        return f"(SELECT *, {number} AS {_SESSION} FROM (SELECT *, {fresh} AS _fresh FROM {rows}))"

    return layer
