"""How the rows of a view are placed: which events share an answer, and which columns say so.

A window, bound to its view, is a placement. Events, states and answers are rows of groups, and a step says which group a
row is in: events fold into states, states merge, and states whose windows overlap or depend on order are arranged into the
rows of an answer. Each step is one SQL statement over the rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

import pyarrow as pa

from views.errors import DefinitionError
from views.source.event import TIMESTAMP
from views.source.source import Source
from views.source.value_types import ValueType
from views.sql.engine import quoted
from views.sql.expressions import Reason

WINDOW_COLUMNS: Final = ("window_start", "window_end")
BOUNDS: Final = tuple(pa.field(name, TIMESTAMP) for name in WINDOW_COLUMNS)
WINDOW_STATE: Final = pa.field("window_state", pa.string())
"""The label of an answer's row; see views.kernel.window_states."""
COMPLETE: Final = pa.field("_complete", pa.bool_())
"""Of arranged states whose windows follow the order of the log: whether no further event can be in the window."""

REASON: Final = "_reason"
"""Of an event in a fold: why it is rejected, null if it is not."""

YEAR_1_US: Final = -62_135_596_800_000_000
YEAR_9999_END_US: Final = 253_402_300_799_999_999
"""The first and the last microsecond that every reader's calendar has."""

MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Layer = Callable[[str, str], str]
"""From SQL that gives rows, and the SQL of what rows have to share (for PARTITION BY), to SQL that gives rows with more."""

Prepare = Callable[[pa.Table, Sequence[str]], pa.Table]
"""From rows to rows with more columns, where SQL cannot; the names of the keys come with them."""


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
        """The statement: one row per keys and groups, with what the aggregates and `states` give."""
        if self.layer is not None:
            rows = self.layer(rows, ", ".join(keys.values()) or "NULL")
        common = {**keys, **self.groups}
        chosen = {**common, **self.aggregates, **states}
        selected = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in chosen.items())
        grouped = f"SELECT {selected} FROM {rows} GROUP BY {', '.join(common.values()) or 'ALL'}"
        if not self.finish:
            return grouped
        return f"SELECT *, {', '.join(f'{sql} AS {quoted(name)}' for name, sql in self.finish.items())} FROM ({grouped})"


@dataclass(frozen=True)
class Placement:
    """A window bound to its view.

    `states` and `answers` are the columns that place a row of states and of answers. `events` are columns computed for
    each event, which `fold` sees; `objections` are conditions on them that reject an event. `settle` makes the states of
    a prefix of the log smaller without changing what they say. `arrange` makes the rows of an answer from states; None
    means that they are the same. `alone` says that rows of different windows have nothing to do with each other; `reach`
    is then how long after a window's start its last states begin. `slice` is the length of states that are stretches of time
    of one length, and `begins` tells whether states of stretches of time begin at an instant; None where they are no such
    stretches. `reads` are the columns of the log that events need, and `pinned` names the packages whose data decide what is
    where, so that their versions count.

    `ends` is when the window that an event makes by itself ends, in microseconds, in SQL over the columns of `events`; None
    where no time ends windows. `grace` is how long after that it can still be in one with later events. `in_order` says that
    windows end in the order of the log; arranged states then have the column COMPLETE. A window that is not `timed` has no
    bounds: BOUNDS are null in every row.
    """

    fold: Step
    merge: Step
    states: tuple[pa.Field, ...] = BOUNDS
    answers: tuple[pa.Field, ...] = BOUNDS
    events: Mapping[str, str] = field(default_factory=dict)
    objections: tuple[tuple[str, Reason], ...] = ()
    settle: Step | None = None
    arrange: Step | None = None
    alone: bool = True
    reach: timedelta = timedelta(0)
    slice: timedelta | None = None
    begins: Callable[[datetime], bool] | None = None
    reads: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    ends: str | None = None
    grace: timedelta = timedelta(0)
    in_order: bool = False
    timed: bool = True


class Window(Protocol):
    """Which events share an answer: a frozen dataclass, so that its class and fields are its whole meaning."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The expressions that it looks at, in the order in which `bind` takes their types."""
        ...

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:
        """The placement of this source's events. Raises DefinitionError for a type that it cannot take."""
        ...


def same(columns: Sequence[pa.Field]) -> Step:
    """The step for rows that are of one group if they agree in the columns."""
    return Step({column.name: quoted(column.name) for column in columns})


def microseconds(event_time: str) -> str:
    """SQL for an event's time in microseconds since 1970."""
    return f"epoch_us({quoted(event_time)})"


def timestamp(number: str) -> str:
    """SQL for the time that is this many microseconds after 1970."""
    return f"make_timestamptz({number})"


def length(what: str, **parts: float) -> timedelta:
    """A length of time given in parts. Raises DefinitionError where they make none."""
    try:
        return timedelta(**parts)
    except (TypeError, ValueError, OverflowError) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in parts.items() if value)
        raise DefinitionError(f"{what} of {given} is not possible: {error}") from error


def since_1970(time: datetime) -> int:
    """A time in microseconds since 1970."""
    return (time - _EPOCH) // MICROSECOND
