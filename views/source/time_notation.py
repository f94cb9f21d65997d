"""Annotations that say how the times of a field are written, where they are not ISO 8601 with a zone.

| annotation                                  | what is written                                                             |
| ------------------------------------------- | --------------------------------------------------------------------------- |
| `Annotated[datetime, Epoch("ms")]`          | a number since 1970-01-01T00:00:00Z, or its digits in a text                |
| `Annotated[datetime, Format("%d/%b/%Y:%H:%M:%S %z")]` | a text of this pattern                                            |
| `Annotated[datetime, Zone("Europe/Berlin")]` | ISO 8601 without a zone: a time on the wall clocks of this one             |
| `Annotated[datetime, Format("%Y-%m-%d %H:%M"), Zone("Europe/Berlin")]` | a text of a pattern without a zone               |
| `Annotated[date, Format("%m/%d/%Y")]`       | the text of a date                                                          |
| `Annotated[date, Zone("Europe/Berlin")]`    | 2026-11-01, which begins there, where it is the event time                  |
| `Annotated[time, Format("%I:%M %p")]`       | the text of a time of day                                                   |
| `Annotated[time, Unit("ms")]`, `Annotated[timedelta, Unit("s")]` | numbers since midnight; of a duration                  |

A time of day or a duration has a notation without annotations, too: it is never as msgspec reads it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Final, Literal, get_args

from tandem.views.errors import DefinitionError
from tandem.views.time_zone import time_zone

EpochUnit = Literal["s", "ms", "us", "ns"]
Fold = Literal["first", "second"]
Gap = Literal["shift", "reject"]

_DIRECTIVE: Final = re.compile(r"%(.?)", re.DOTALL)
_LONGER: Final = {"T": "%H:%M:%S", "F": "%Y-%m-%d"}
_DATE: Final = frozenset("YymbBdejaA")
_TIME: Final = frozenset("HIMSfpzZ")
_PARTS_OF_DATE: Final = {"year": "Yy", "month": "mbBj", "day": "dej"}
_DIGITS: Final = frozenset("YymdejHIMSf")
CLOCKS: Final = (time, timedelta)
"""The types of values that are microseconds in their columns."""
DIRECTIVES: Final = ", ".join(f"%{name}" for name in "YymbBdejaAHIpMSfzZTF%")


@dataclass(frozen=True)
class Epoch:
    """Times are numbers of this unit since 1970-01-01T00:00:00Z: "s", "ms", "us" or "ns"; or their digits in a text.

    What is beyond the microsecond is cut, toward the past.
    """

    unit: EpochUnit

    def __post_init__(self) -> None:
        """Raises DefinitionError for another unit."""
        if self.unit not in get_args(EpochUnit):
            raise DefinitionError(f'Epoch({self.unit!r}): a number since 1970 is of "s", "ms", "us" or "ns"')


@dataclass(frozen=True)
class Zone:
    """Times without a zone are on the wall clocks of a zone of the IANA database, such as "Europe/Berlin".

    * `fold`: which of both times is meant where clocks are set back, and show an hour twice.
    * `gap`: "shift" moves a time that clocks skip forward by what they skip, as Java and PostgreSQL do; "reject" rejects it.
    """

    name: str
    fold: Fold = "first"
    gap: Gap = "shift"

    def __post_init__(self) -> None:
        """Raises DefinitionError for a zone that does not exist, or another rule."""
        time_zone(self.name)
        if self.fold not in get_args(Fold):
            raise DefinitionError(f'Zone({self.name!r}): fold {self.fold!r} is neither "first" nor "second"')
        if self.gap not in get_args(Gap):
            raise DefinitionError(f'Zone({self.name!r}): gap {self.gap!r} is neither "shift" nor "reject"')


@dataclass(frozen=True)
class Format:
    """Times are texts of this pattern, whose directives are those of `datetime.strptime`; names are English, in any case.

    * A number may have fewer digits than its directive, as in 6/1/2026, unless digits follow it directly.
    * %z is Z, +HH, +HHMM or +HH:MM; %Z is Z, UTC or GMT; %f is any number of digits; %e is a day padded with a space.
    * %y is a year from 1969 to 2068. A name of a weekday has to fit the date.
    """

    pattern: str

    def __post_init__(self) -> None:
        """Raises DefinitionError for a pattern that contradicts itself, or gives neither a whole date nor a time of day."""
        names = self.directives
        if unknown := [name for name in names if name not in _DATE | _TIME]:
            raise DefinitionError(f"{self}: unknown directive %{unknown[0]}; directives: {DIRECTIVES}")
        if repeated := [name for name in names if names.count(name) > 1]:
            raise DefinitionError(f"{self}: %{repeated[0]} occurs {names.count(repeated[0])} times")
        for what, several in {**_PARTS_OF_DATE, "hour": "HI", "zone": "zZ"}.items():
            if len(chosen := [name for name in names if name in several]) > 1:
                raise DefinitionError(f"{self}: %{chosen[0]} and %{chosen[1]} both give the {what}")
        if not {"H", "I"} & set(names) or self.has_date:
            self.check_date()
        if ("I" in names) != ("p" in names):
            raise DefinitionError(f"{self}: %I, an hour from 1 to 12, goes with %p, which is AM or PM")
        if re.search(r"%f%[YymdejHIMS]", self.plain):
            raise DefinitionError(f"{self}: digits follow %f directly, which has any number of digits")

    @property
    def has_date(self) -> bool:
        """Whether a directive gives a part of a date."""
        return bool(_DATE & set(self.directives))

    def check_date(self) -> None:
        """Raise DefinitionError for a pattern that does not give a whole date."""
        for what, several in _PARTS_OF_DATE.items():
            if not set(several) & set(self.directives):
                raise DefinitionError(f"{self}: the {what} is missing; a time has a whole date, such as %Y-%m-%d")

    @property
    def plain(self) -> str:
        """The pattern with %T and %F written out."""
        return _DIRECTIVE.sub(lambda match: _LONGER.get(match[1], match[0]), self.pattern)

    @property
    def directives(self) -> list[str]:
        """The names of the pattern's directives, in order."""
        if not isinstance(self.pattern, str):
            raise DefinitionError(f"Format({self.pattern!r}): expected a text such as '%d/%b/%Y:%H:%M:%S %z'")
        return [name for name in _DIRECTIVE.findall(self.plain) if name != "%"]

    def parts(self) -> list[tuple[str, bool]]:
        """The pattern cut into pieces, in order: literal texts, and the names of directives after %.

        With each, whether the next piece is a directive of digits: then its own digits must all be there.
        """
        pieces = [piece for piece in re.split(r"(%.)", self.plain, flags=re.DOTALL) if piece]
        return [
            (piece, after[:1] == "%" and after[1:] in _DIGITS and after != "%e")
            for piece, after in zip(pieces, [*pieces[1:], ""], strict=True)
        ]


@dataclass(frozen=True, repr=False)
class Notation:
    """How the times of one field are written: its annotations; `unit` is that of a time of day or duration in numbers."""

    epoch: Epoch | None = None
    format: Format | None = None
    zone: Zone | None = None
    unit: EpochUnit | None = None

    def __repr__(self) -> str:  # a part of fingerprints
        marks = [f"{name}={getattr(self, name)!r}" for name in ("epoch", "format", "zone")]
        return f"Notation({', '.join(marks if self.unit is None else [*marks, f'unit={self.unit!r}'])})"

    def __str__(self) -> str:
        if self.unit is not None:
            return f"Unit({self.unit!r})"
        return ", ".join(str(mark) for mark in (self.epoch, self.format, self.zone) if mark is not None) or "ISO 8601"


def notation_of(marks: Sequence[Any], bare: Any, place: str, unit: str = "") -> Notation | None:
    """The notation of a field's annotations, None if there is none. Raises DefinitionError if they do not fit each other.

    `unit` is the name of the field's Unit, which says what the numbers of a time of day or duration are.
    """
    if bare in CLOCKS:
        return _notation_of_clock(marks, bare, place, unit)
    several = [mark for mark in marks if isinstance(mark, Epoch | Format | Zone)]
    if not several:
        return None
    kinds = [type(mark) for mark in several]
    if bare not in (datetime, date):
        raise DefinitionError(f"{place}: {several[0]} belongs to a datetime or date, not to {getattr(bare, '__name__', bare)}")
    if len(set(kinds)) < len(kinds) or (Epoch in kinds and len(kinds) > 1):
        raise DefinitionError(f"{place}: {several[0]} and {several[1]} contradict each other")
    epoch = next((mark for mark in several if isinstance(mark, Epoch)), None)
    format_ = next((mark for mark in several if isinstance(mark, Format)), None)
    zone = next((mark for mark in several if isinstance(mark, Zone)), None)
    names = format_.directives if format_ is not None else []
    if bare is date:
        if epoch is not None:
            raise DefinitionError(f"{place}: {epoch} belongs to a datetime, not to date")
        if format_ is not None and not _DATE & set(names):
            format_.check_date()
        if _TIME & set(names):
            raise DefinitionError(f"{place}: {format_} has a time of day or a zone, and date has neither; declare a datetime")
    elif format_ is not None:
        format_.check_date()
        if zone is None and not {"z", "Z"} & set(names):
            raise DefinitionError(f'{place}: {format_} gives no zone; add %z, or an annotation such as Zone("UTC")')
        if zone is not None and {"z", "Z"} & set(names):
            raise DefinitionError(f"{place}: {format_} gives a zone, so {zone} decides nothing")
    return Notation(epoch, format_, zone)


def _notation_of_clock(marks: Sequence[Any], bare: Any, place: str, unit: str) -> Notation:
    """The notation of a time of day or a duration."""
    kind = bare.__name__
    units = get_args(EpochUnit)
    for mark in marks:
        if isinstance(mark, Epoch):
            raise DefinitionError(f'{place}: {mark} is of numbers since 1970; the numbers of a {kind} have Unit("{mark.unit}")')
        if isinstance(mark, Zone) or (isinstance(mark, Format) and bare is timedelta):
            raise DefinitionError(f"{place}: {mark} belongs to a datetime or date, not to {kind}")
    if unit and unit not in units:
        raise DefinitionError(f"{place}: the numbers of a {kind} are of the unit {', '.join(units)}, not {unit!r}")
    format_ = next((mark for mark in marks if isinstance(mark, Format)), None)
    if format_ is not None and unit:
        raise DefinitionError(f"{place}: {format_} and Unit({unit!r}) contradict each other")
    if format_ is not None and set(format_.directives) - (_TIME - {"z", "Z"}):
        raise DefinitionError(f"{place}: {format_} has a date or a zone, and time has neither; declare a datetime")
    return Notation(format=format_, unit=next((choice for choice in units if choice == unit), None))
