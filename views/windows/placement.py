"""What a window defines: which events share an answer, and which columns tell the answers apart.

A window (`Window`), bound to a view, is a `Placement`, which has these parts:

| part | what it defines |
| --- | --- |
| `steps` (`Steps`) | how events fold into states, states merge, and states become the rows of an answer |
| `columns` (`Columns`) | which columns place a row of states, and a row of an answer |
| `events` (`EventInputs`) | what the fold computes of each event, which events it rejects, and what it reads of the log |
| `timing` (`Timing`) | where windows lie in event time, and when they end |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol, get_args

import pyarrow as pa

from tandem.views.errors import DefinitionError
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType
from tandem.views.sql.engine import quoted
from tandem.views.sql.expressions import Reason

WINDOW_COLUMNS: Final = ("window_start", "window_end")
BOUNDS: Final = tuple(pa.field(name, TIMESTAMP) for name in WINDOW_COLUMNS)
WINDOW_STATE: Final = pa.field("window_state", pa.string())
"""The label of an answer's row; see tandem.views.kernel.present."""
WindowState = Literal["open", "on_time", "final"]
STATES: Final[tuple[WindowState, ...]] = get_args(WindowState)
COMPLETE: Final = pa.field("_complete", pa.bool_())
"""The column of arranged states of windows in log order: whether no further event can be in the window."""

REASON: Final = "_reason"
"""The column of a fold with why an event is rejected; null if it is not."""


Layer = Callable[[str, str], str]
"""From SQL for rows, and SQL for the columns to partition them by, to SQL for rows with more columns."""

Prepare = Callable[[pa.Table, Sequence[str]], pa.Table]
"""From rows, and the names of the keys, to rows with more columns; for what SQL cannot do."""


@dataclass(frozen=True)
class Step:
    """How rows become groups: `groups` are the columns that rows of a group have in common, besides the view's keys.

    `aggregates` are further columns of the group, and `finish` is computed from both; all by name, in SQL over the rows
    of `layer`. `prepare` comes first.
    """

    groups: Mapping[str, str]
    aggregates: Mapping[str, str] = field(default_factory=dict)
    finish: Mapping[str, str] = field(default_factory=dict)
    layer: Layer | None = None
    prepare: Prepare | None = None

    def sql(self, rows: str, keys: Mapping[str, str], states: Mapping[str, str]) -> str:
        """The statement: one row per combination of keys and groups, with the aggregates and `states`."""
        if self.layer is not None:
            rows = self.layer(rows, ", ".join(keys.values()) or "NULL")
        common = {**keys, **self.groups}
        chosen = {**common, **self.aggregates, **states}
        selected = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in chosen.items())
        grouped = f"SELECT {selected} FROM {rows} GROUP BY {', '.join(common.values()) or 'ALL'}"
        if not self.finish:
            return grouped
        return f"SELECT *, {', '.join(f'{sql} AS {quoted(name)}' for name, sql in self.finish.items())} FROM ({grouped})"


def same(columns: Sequence[pa.Field]) -> Step:
    """The step that puts rows with equal columns in one group."""
    return Step({column.name: quoted(column.name) for column in columns})


@dataclass(frozen=True)
class Steps:
    """How rows become groups on their way from events to answers.

    `settle` replaces the states of everything below a position by fewer states with the same meaning, such as one session for
    several events. `arrange` makes the rows of an answer from states; None means that the states are the rows.
    """

    fold: Step
    merge: Step
    settle: Step | None = None
    arrange: Step | None = None


@dataclass(frozen=True)
class Columns:
    """The columns that place a row of `states`, and a row of `answers`, besides the view's keys."""

    states: tuple[pa.Field, ...] = BOUNDS
    answers: tuple[pa.Field, ...] = BOUNDS


@dataclass(frozen=True)
class EventInputs:
    """What the fold needs of each event.

    `columns` are computed for it, by name in SQL. `objections` are conditions on these columns that reject the event, each with
    its reason. `reads` are the columns of the log that both need.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    objections: tuple[tuple[str, Reason], ...] = ()
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Where windows lie in event time.

    * `ends`: SQL over the columns of an event for the end, in microseconds, of the window that would hold this event alone. None:
      no time ends windows.
    * `grace`: how long after that end a later event can still join the window.
    * `slice`: the length of the slice of event time that a state covers. None: lengths differ.
    * `reach`: how long after a window's start its last states begin.
    * `slice_at`: the start and end of the slice that has an instant, or is nearest to it. None: no clock aligns the states.
    * `first_at`: the start of the first window that begins at an instant or later. None: windows do not begin at a time.
    * `overlap`: how long a window goes on after the start of the next one.
    * `bounded`: whether windows have a start and an end. If not, BOUNDS are null in every row.
    """

    ends: str | None = None
    grace: timedelta = timedelta(0)
    slice: timedelta | None = None
    reach: timedelta = timedelta(0)
    slice_at: Callable[[datetime], tuple[datetime, datetime]] | None = None
    first_at: Callable[[datetime], datetime] | None = None
    overlap: timedelta = timedelta(0)
    bounded: bool = True


@dataclass(frozen=True)
class Placement:
    """A window bound to its view.

    * `independent`: rows of different windows never merge.
    * `in_order`: windows end in the order of the log; arranged states then have the column COMPLETE.
    * `pinned`: packages whose data decide the placement; their versions are part of the fingerprint.
    """

    steps: Steps
    columns: Columns = Columns()
    events: EventInputs = field(default_factory=EventInputs)
    timing: Timing = Timing()
    independent: bool = True
    in_order: bool = False
    pinned: tuple[str, ...] = ()


class Window(Protocol):
    """Which events share an answer: a frozen dataclass, so that its class and fields are its whole meaning."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The expressions that the window reads, in the order in which `bind` takes their types."""
        ...

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:
        """The placement of this source's events. Raises DefinitionError for a type that it cannot take."""
        ...


def epoch_us(event_time: str) -> str:
    """SQL for an event's time in microseconds since 1970."""
    return f"epoch_us({quoted(event_time)})"


def timestamp(number: str) -> str:
    """SQL for the time of a number of microseconds since 1970."""
    return f"make_timestamptz({number})"


def length(what: str, **parts: float) -> timedelta:
    """A length of time from its parts, as timedelta takes them. Raises DefinitionError for an impossible one."""
    for name, value in parts.items():
        if not isinstance(value, int | float):
            raise DefinitionError(f"{what}: {name}={value!r} is not a number; write {name}=1")
    try:
        return timedelta(**parts)
    except (TypeError, ValueError, OverflowError) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in parts.items() if value)
        raise DefinitionError(f"{what} of {given} is not possible: {error}") from error
