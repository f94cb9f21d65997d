"""When a reader of changes gets a step: at every commit, or several commits later in one step.

| when        | a step is due                                                                                     |
| ----------- | ------------------------------------------------------------------------------------------------- |
| `commit`    | at every commit and publication                                                                   |
| `every:10s` | when the log's time passes a multiple of this                                                     |
| `delay:10s` | when the log's time is this long after the first change that the reader lacks                     |
| `count:100` | when answers count at least this many records of the log more than the reader                     |

The log's time is when the newest counted record was appended, so that a replay is divided as the log was. From then on it
continues as the clock of this process does, so that the last rows before an idle log are sent, too. A step that is due at a time
has what was appended before that time, as far as commits divide it. It is the difference of two snapshots, however many lie
between them, so each row occurs in it at most once, and the rows at its token are what the reader then has.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, get_args

from tandem.serving.read.selection import BadSelection, parse_span

Unit = Literal["commit", "every", "delay", "count"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
Due = Literal["newest", "past"]

LONGEST_S: Final = 60
"""The most seconds for which a server keeps what a reader lacks: until its step, earlier states of the view stay in memory."""


@dataclass(frozen=True)
class When:
    """When steps are due: `amount` is in seconds, or in records. With `bounded` none waits for longer than `LONGEST_S`."""

    unit: Unit = "commit"
    amount: int = 1
    bounded: bool = False


def parse_when(text: str, *, bounded: bool = False) -> When:
    """When steps are due, from `commit`, `every:10s`, `delay:10s` or `count:100`. Raises BadSelection."""
    unit, colon, amount = text.partition(":")
    match unit:
        case "commit" if not colon:
            return When()
        case "every" | "delay":
            seconds = int(parse_span(amount).total_seconds())
            if bounded and seconds > LONGEST_S:
                raise BadSelection(
                    f"when={text} waits for too long: a server keeps what a reader lacks for at most {LONGEST_S} s; "
                    f"write {unit}:{LONGEST_S}s"
                )
            if seconds:
                return When(unit, seconds, bounded)
        case "count" if amount.isascii() and amount.isdecimal() and 0 < len(amount) <= _DIGITS and int(amount):
            return When("count", int(amount), bounded)
    raise BadSelection(f"invalid when={text}; write commit, every:10s, delay:10s or count:100")


_DIGITS: Final = 9


@dataclass
class Pace:
    """Tells when the steps of one reader are due. `clock` returns monotonic seconds.

    `due` is when the next step is, in the log's time in seconds since 1970; None while only a change or a count can tell.
    """

    when: When
    clock: Callable[[], float]
    due: float | None = field(default=None, init=False)
    _time: float = field(default=0.0, init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._at = self.clock()

    @property
    def now(self) -> float:
        """The log's time."""
        return self._time + self.clock() - self._at

    @property
    def wait_s(self) -> float | None:
        """Seconds until a step is due, if no record comes."""
        return None if self.due is None else max(0.0, self.due - self.now)

    def hear(self, newest: datetime | None) -> None:
        """Take the append time of the newest counted record into account. The log's time never steps back."""
        if newest is not None and newest.timestamp() > self.now:
            self._time, self._at = newest.timestamp(), self.clock()

    def begin(self) -> None:
        """Wait for the next step from now on."""
        amount = self.when.amount
        if self.when.unit == "every":
            self.due = (self.now // amount + 1) * amount
        elif self.when.unit == "delay" or self.when.bounded:
            self.due = self.now + (amount if self.when.unit == "delay" else LONGEST_S)

    def ready(self, newest: datetime | None, records: int) -> Due | None:
        """Which snapshot is sent: the newest one, the one past before it, or none.

        `newest` is the append time of the newest record that the newest one counts, and `records` how many more records it counts
        than the reader.
        """
        unit, due = self.when.unit, self.due
        if unit == "commit" or (unit == "count" and records >= self.when.amount):
            self.due = None
            return "newest"
        if due is None or self.now < due:
            return None
        self.due = None
        if unit == "every":
            self.begin()
        return "past" if newest is not None and newest.timestamp() >= due else "newest"
