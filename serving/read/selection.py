"""The selection of a question: values of a view's keys, and a range of window starts.

It applies twice: first to states, of which it skips only those that no selected row is made of, then to the rows of the answer.
Merging and arranging combine only states that agree in all their keys, and in time as far as the window says.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache, reduce
from math import isfinite
from operator import and_
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.log.positions import Position
from tandem.serving.read.window_zone import clocks, zone_name
from tandem.views.arrow import python_values
from tandem.views.arrow.python_values import exact_decimals
from tandem.views.composite.current_rows import VALID_FROM, RowsView, of_states
from tandem.views.composite.dated import pieces
from tandem.views.composite.rollup import keys_over_root, root
from tandem.views.composite.table import Table
from tandem.views.errors import TandemError, listed
from tandem.views.instant import EPOCH, utc_text
from tandem.views.source.event import TIMESTAMP
from tandem.views.sql.engine import quoted
from tandem.views.view import View, bind, state_schema
from tandem.views.windows import WINDOW_COLUMNS

Between = tuple[datetime | None, datetime | None]
"""Half-open bounds of window starts, `[from, to)`; None is open."""

ALWAYS: Final[Between] = (None, None)

_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_TEXT: Final = pa.string()
_SPAN_DIGITS: Final = 9


class BadSelection(TandemError, code="selection-invalid"):
    """A key that the view does not have, a value that its type cannot hold, or a range without a meaning."""


@dataclass(frozen=True)
class Among:
    """Keys of a view: `keys` are their values as Arrow returns them in Python, of columns with these names and types."""

    columns: Mapping[str, pa.DataType]
    keys: frozenset[tuple[Any, ...]]

    def terms(self) -> list[pc.Expression]:
        """Conditions that every state of such a key meets, and few others do."""
        values = zip(*self.keys, strict=True) if self.keys else ((),) * len(self.columns)
        return [
            pc.field(name).isin(python_values.array(list(set(some)), arrow))
            for (name, arrow), some in zip(self.columns.items(), values, strict=True)
        ]

    def rename(self, names: Mapping[str, str]) -> "Among":
        """The same values, of columns of other names."""
        return replace(self, columns={names[name]: arrow for name, arrow in self.columns.items()})

    def rows(self, table: pa.Table) -> pa.Table:
        """The rows of a table that have such a key."""
        there = zip(*(table[name].to_pylist() for name in self.columns), strict=True)
        return table.filter(python_values.array([key in self.keys for key in there], pa.bool_())) if self.columns else table


@dataclass(frozen=True)
class Selection:
    """Rows whose keys equal the given values and whose window starts in `[start, end)`.

    | field | meaning |
    | --- | --- |
    | `keys` | a NULL scalar selects rows whose key is NULL |
    | `start`, `end` | None is open |
    | `reach` | a row is made of states that start up to this long after its window's start; of any state if None |
    | `one` | everything in the range is one window |
    | `among` | the keys that rows may have, all values of each in the view's order; any if None |
    | `at` | of a table, the versions that were valid then; the latest if None |
    """

    keys: Mapping[str, pa.Scalar] = field(default_factory=dict)
    start: datetime | None = None
    end: datetime | None = None
    reach: timedelta | None = timedelta(0)
    one: bool = False
    among: "Among | None" = None
    at: datetime | None = None

    def expression(self) -> pc.Expression | None:
        """The needed states, as a filter of a table of them; None if all are."""
        terms = self._of_keys()
        if self.among is not None:
            terms += self.among.terms()
        if self.at is not None:
            terms.append(pc.field(VALID_FROM) <= python_values.scalar(self.at, TIMESTAMP))
        if self.reach is not None:
            terms += _starting(self.start, None if self.end is None else later(self.end, self.reach))
        return reduce(and_, terms) if terms else None

    def _of_keys(self) -> list[pc.Expression]:
        return [pc.field(name) == value if value.is_valid else pc.field(name).is_null() for name, value in self.keys.items()]

    def of_keys(self, arranged: pa.Table) -> pa.Table:
        """The rows of an answer whose keys equal the given values, where no states could be skipped by them."""
        terms = self._of_keys()
        return arranged.filter(reduce(and_, terms)) if terms else arranged

    def filter(self, states: pa.Table) -> pa.Table:
        """The needed states of a table."""
        expression = self.expression()
        return states if expression is None else states.filter(expression)

    def rows(self, arranged: pa.Table) -> pa.Table:
        """The selected rows of an answer."""
        terms = [] if self.reach == timedelta(0) else _starting(self.start, self.end)
        found = arranged.filter(reduce(and_, terms)) if terms else arranged
        return found if self.among is None else self.among.rows(found)


def select(
    view: View, keys: Mapping[str, object], between: Between, *, one: bool = False, at: datetime | None = None
) -> Selection:
    """The selection from Python values, each converted to its key's type.

    Raises BadSelection for a key that the view does not have, a value its type cannot hold, a range on a view without windows, a
    range that ends before it starts, one window of a range that is not made of the view's slices, or a time `at` for a view that
    is not a table.
    """
    start, end = between
    if (start, end) != (None, None) and not bind(view).placement.timing.bounded:
        raise BadSelection(f"view {view.name!r} is of all time, so it has no windows to choose from")
    if at is not None and not isinstance(of_states(view), Table):
        raise BadSelection(f"view {view.name!r} is not a table, so it has no versions of which one is valid at a time")
    for bound in (start, end, at):
        if bound is not None and not isinstance(bound, datetime):
            raise BadSelection(f"invalid time {bound!r}; expected a datetime with a zone")
        if bound is not None and bound.tzinfo is None:
            raise BadSelection(f"{bound.isoformat()} has no time zone; add one, such as UTC")
    if start is not None and end is not None and end < start:
        raise BadSelection(f"the range ends at {end.isoformat()}, before its start {start.isoformat()}")
    if one:
        _check_one(view, start, end)
    placement = bind(view).placement
    reach = timedelta(0) if one else placement.timing.reach if placement.independent else None
    return Selection({name: _scalar(view, name, value) for name, value in keys.items()}, start, end, reach, one, at=at)


def of_root(view: View, selection: Selection) -> Selection:
    """The selection of those states of a rollup's root of which selected states of the rollup are made; a few others too."""
    if isinstance(view, RowsView):  # any row of the table may decide any row of the view
        return Selection(at=selection.at, reach=None)
    timing, plain = bind(view).placement.timing, {quoted(name): name for name in root(view).keys}
    over = keys_over_root(view)
    same = {name: plain[sql] for name, sql in over.items() if sql in plain}  # others are computed of keys of several states
    among = selection.among
    if among is not None:
        among = among.rename(same) if len(same) == len(over) else None
    selection = replace(
        selection, keys={same[name]: value for name, value in selection.keys.items() if name in same}, among=among
    )
    if selection.reach is None or timing.slice_at is None:
        return replace(selection, start=None, end=None)
    end = None if selection.end is None else later(selection.end, selection.reach)
    return replace(selection, end=None if end is None else timing.slice_at(end)[1], reach=timedelta(0))


def measures_of(view: View, named: Iterable[str]) -> tuple[str, ...]:
    """Named measures in the view's order. Raises BadSelection for a name that the view lacks."""
    names = [*named]
    for name in names:
        if name not in view.measures:
            raise BadSelection(f"view {view.name!r} has no measure {name!r}; measures: {listed(name, view.measures)}")
    return tuple(name for name in view.measures if name in names)


def last(view: View, span: timedelta, *, now: datetime) -> Between:
    """The range of this length that ends with the slice that contains `now`. Raises BadSelection as `select` does."""
    slice_ = _slice(view)
    if span <= timedelta(0) or span % slice_:
        raise BadSelection(f"the last {span} are not possible: view {view.name!r} has slices of {slice_}")
    try:
        end = now - (now - EPOCH) % slice_ + slice_
        return end - span, end
    except OverflowError:
        raise BadSelection(f"the last {span} reach beyond the years 1 to 9999") from None


def parse_span(text: str) -> timedelta:
    """A length of time as `90s`, `37m`, `2h` or `7d`."""
    number, unit = text[:-1], _UNITS.get(text[-1:])
    if unit is None or not (number.isascii() and number.isdecimal()) or len(number) > _SPAN_DIGITS:
        raise BadSelection(f"invalid duration {text!r}; write 90s, 37m, 2h or 7d")
    return int(number) * unit


def parse_position(text: str) -> Position:
    """A position from its JSON object. Raises BadSelection."""
    try:
        return Position.from_json(msgspec.json.decode(text, type=dict[str, dict[str, int]]))
    except (ValueError, TandemError, msgspec.MsgspecError):
        raise BadSelection(f'invalid position {text!r}; expected a JSON object such as {{"TOPIC ID": {{"0": 31}}}}') from None


def _check_one(view: View, start: datetime | None, end: datetime | None) -> None:
    slice_ = _slice(view)
    if start is None or end is None:
        raise BadSelection("one window of a range needs both ends of the range")
    for bound in (start, end):
        if (bound - EPOCH) % slice_:
            below = bound - (bound - EPOCH) % slice_
            raise BadSelection(
                f"view {view.name!r} has slices of {slice_}, and none begins at {bound.isoformat()}; the nearest are "
                f"{below.isoformat()} and {(below + slice_).isoformat()}"
            )
    for piece in pieces(view):
        if piece.start is not None and start < piece.start < end:
            raise BadSelection(
                f"one window has one definition, and view {view.name!r} has another from {piece.start.isoformat()} on; ask for "
                "the range before it and the range from it on"
            )


def _slice(view: View) -> timedelta:
    slice_ = bind(view).placement.timing.slice
    if slice_ is None:
        raise BadSelection(f"view {view.name!r} has no time slices, so a range cannot be one window")
    return slice_


def _starting(start: datetime | None, end: datetime | None) -> list[pc.Expression]:
    """That `window_start` is in `[start, end)`."""
    terms = []
    if start is not None:
        terms.append(pc.field(WINDOW_COLUMNS[0]) >= python_values.scalar(start, TIMESTAMP))
    if end is not None:
        terms.append(pc.field(WINDOW_COLUMNS[0]) < python_values.scalar(end, TIMESTAMP))
    return terms


def later(time: datetime, by: timedelta) -> datetime | None:
    """The sum; None beyond the calendar's bounds, which leaves a range open."""
    try:
        return time + by
    except OverflowError:
        return None


def parse_keys(view: View, texts: Iterable[str]) -> dict[str, pa.Scalar]:
    """The values of `NAME=VALUE` texts, each read as its key's type; a bare `NAME` is the NULL key."""
    keys: dict[str, pa.Scalar] = {}
    for text in texts:
        name, given, value = text.partition("=")
        if name in keys:
            raise BadSelection(f"key {name!r} occurs twice; a row has one value for it")
        kind = _key_type(view, name)
        keys[name] = _parse(view, name, value, kind) if given else python_values.scalar(None, kind)
    return keys


def parse_time(text: str, zone: tzinfo = UTC) -> datetime:
    """A time in ISO 8601, converted to UTC. Without a zone it is read in `zone`; a date alone is its first instant.

    A local time that clocks show twice is the first of both. A skipped one has the offset before the skip.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise BadSelection(
            f"invalid time {text!r}; write 2026-11-01, 2026-11-01T08:00 or 2026-11-01T08:00:00+01:00; times without a "
            f"zone are in {zone}"
        ) from None
    try:
        return read.astimezone(UTC) if read.tzinfo is not None else read.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        raise BadSelection(f"the time {text!r} is outside the years 1 to 9999") from None


def parse_between(start: str | None, end: str | None, zone: tzinfo = UTC) -> Between:
    """The bounds of window starts from texts, of which an empty one is open. Raises BadSelection."""
    return parse_time(start, zone) if start else None, parse_time(end, zone) if end else None


def parse_window(view: View, start: str | None) -> Between:
    """The bounds that only the window with this start is in; all time for a view without windows. Raises BadSelection."""
    if not bind(view).placement.timing.bounded:
        if start is not None:
            raise BadSelection(f"view {view.name!r} is of all time, so it has no windows to choose from")
        return ALWAYS
    if start is None:
        raise BadSelection(
            f"view {view.name!r} has windows ({view.window}); add the start of a window, such as window=2026-11-01T08:00"
        )
    at = parse_time(start, clocks(zone_name(view)))
    try:
        return at, at + timedelta(microseconds=1)
    except OverflowError:
        return at, None


def check_start(view: View, start: datetime | None) -> None:
    """Raise BadSelection for a time at which no window of the view can start, where a clock aligns them.

    An answer for such a time would say of the events around it that nothing was counted.
    """
    timing = bind(view).placement.timing
    if start is None or timing.first_at is None or timing.slice_at is None or timing.first_at(start) == start:
        return
    near = {*timing.slice_at(start), timing.first_at(start)}
    starts = " and ".join(utc_text(time) for time in sorted(near) if timing.first_at(time) == time)
    raise BadSelection(f"view {view.name!r} has no window that starts at {utc_text(start)}; the nearest start at {starts}")


@lru_cache(maxsize=4096)
def _key_type(view: View, name: str) -> pa.DataType:
    """The Arrow type of a view's key; BadSelection names the nearest and all of them when it has no such key."""
    if name in view.keys:
        return state_schema(view).field(name).type
    if not view.keys:
        raise BadSelection(f"view {view.name!r} has no keys, so {name!r} is not a key")
    raise BadSelection(f"view {view.name!r} has no key {name!r}; keys: {listed(name, view.keys)}")


def _scalar(view: View, name: str, value: object) -> pa.Scalar:
    kind = _key_type(view, name)
    if isinstance(value, pa.Scalar):
        return value
    try:
        if isinstance(value, Decimal) and pa.types.is_decimal(kind):
            value = exact_decimals(kind)(value)
        scalar = python_values.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError):
        raise _misfit(view, name, repr(value), kind) from None
    if value is not None and scalar.as_py() != value:  # Arrow makes 5 of 5.5
        raise _misfit(view, name, repr(value), kind)
    return scalar


def _parse(view: View, name: str, text: str, kind: pa.DataType) -> pa.Scalar:
    """The scalar of a text; Arrow's own casts parse numbers, so no digit is lost."""
    try:
        if kind == _TEXT:  # a cast to the type that it has costs as much as all the rest of a look-up
            return python_values.scalar(text, kind)
        if pa.types.is_timestamp(kind):
            return python_values.scalar(parse_time(text), kind)
        if pa.types.is_date(kind):
            return python_values.scalar(date.fromisoformat(text), kind)
        if pa.types.is_binary(kind):
            return python_values.scalar(b64decode(text, validate=True), kind)
        if pa.types.is_boolean(kind) and text.lower() not in ("true", "false"):  # Arrow reads 1 as true
            raise _misfit(view, name, repr(text), kind)
        if pa.types.is_integer(kind) and not text.removeprefix("-").isdecimal():  # Arrow reads 0x10 as 16
            raise _misfit(view, name, repr(text), kind)
        if pa.types.is_decimal(kind) and _NUMBER.fullmatch(text):  # Python reads 1_0 as 10
            return python_values.scalar(exact_decimals(kind)(Decimal(text)), kind)
        if pa.types.is_floating(kind) and not isfinite(float(text)):  # no row has such a key
            raise _misfit(view, name, repr(text), kind)
        return python_values.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowException, ArithmeticError, ValueError, BadSelection):
        raise _misfit(view, name, repr(text), kind) from None


def _misfit(view: View, name: str, value: str, kind: pa.DataType) -> BadSelection:
    return BadSelection(f"invalid value {value} of key {name!r} of view {view.name!r}; expected {_describe(kind)}")


def _describe(kind: pa.DataType) -> str:
    """What a key of an Arrow type accepts, in words with an example."""
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_integer(kind):
        return "a 64-bit integer, such as 42"
    if pa.types.is_floating(kind):
        return "a number, such as 1.5"
    if pa.types.is_decimal(kind):
        if not kind.scale:
            return f"an integer of at most {kind.precision} digits, such as 42"
        return f"a decimal number of at most {kind.scale} places, such as 1.50"
    if pa.types.is_date(kind):
        return "a date, such as 2026-11-01"
    if pa.types.is_timestamp(kind):
        return "a time, such as 2026-11-01T08:00:00Z"
    if pa.types.is_binary(kind):
        return "bytes in base64, such as Cv8="
    return "a text"
