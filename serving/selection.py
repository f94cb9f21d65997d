"""Which rows of a view an answer is asked for: values of its keys, and a range of window starts.

A selection only ever names whole states, so it is applied below the merge: two states merge when all their
keys and their window agree.
"""

from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import reduce
from operator import and_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from views.errors import TandemError, listed
from views.event import TIMESTAMP
from views.view import View, state_schema
from views.windows import AllTime

Between = tuple[datetime | None, datetime | None]
"""Half-open bounds of window starts, `[from, to)`; None is open."""

ALWAYS: Final[Between] = (None, None)


class BadSelection(TandemError):
    """A key that the view does not have, a value that its type cannot hold, or a range without a meaning."""


@dataclass(frozen=True)
class Selection:
    """Rows whose keys equal the given values and whose window starts in `[start, end)`.

    A NULL scalar asks for the rows whose key is NULL. A bound of None is open.
    """

    keys: Mapping[str, pa.Scalar] = field(default_factory=dict)
    start: datetime | None = None
    end: datetime | None = None

    def expression(self) -> pc.Expression | None:
        """The selection as a filter over a table of states; None when it takes every row."""
        terms = [pc.field(name) == value if value.is_valid else pc.field(name).is_null() for name, value in self.keys.items()]
        if self.start is not None:
            terms.append(pc.field("window_start") >= pa.scalar(self.start, TIMESTAMP))
        if self.end is not None:
            terms.append(pc.field("window_start") < pa.scalar(self.end, TIMESTAMP))
        return reduce(and_, terms) if terms else None

    def filter(self, states: pa.Table) -> pa.Table:
        """The selected rows of a table of states."""
        expression = self.expression()
        return states if expression is None else states.filter(expression)


def select(view: View, keys: Mapping[str, object], between: Between) -> Selection:
    """The selection of Python values, each converted to its key's type.

    Raises BadSelection for a key that the view does not have, a value its type cannot hold, a range on a view
    without windows, or a range that ends before it starts.
    """
    start, end = between
    if (start, end) != (None, None) and isinstance(view.window, AllTime):
        raise BadSelection(f"view {view.name!r} counts all time, so it has no windows to choose between")
    for bound in (start, end):
        if bound is not None and bound.tzinfo is None:
            raise BadSelection(f"{bound.isoformat()} names no zone; give it one, such as UTC")
    if start is not None and end is not None and end < start:
        raise BadSelection(f"the range ends at {end.isoformat()}, before its start {start.isoformat()}")
    return Selection({name: _scalar(view, name, value) for name, value in keys.items()}, start, end)


def parse_keys(view: View, texts: Iterable[str]) -> dict[str, pa.Scalar]:
    """The values of `NAME=VALUE` texts, each read as its key's type; a bare `NAME` is the NULL key."""
    keys: dict[str, pa.Scalar] = {}
    for text in texts:
        name, given, value = text.partition("=")
        if name in keys:
            raise BadSelection(f"key {name!r} is given twice; a row has one value for it")
        kind = _key_type(view, name)
        keys[name] = _parse(view, name, value, kind) if given else pa.scalar(None, kind)
    return keys


def parse_time(text: str) -> datetime:
    """A time in ISO 8601, in UTC unless it names a zone; a date alone is its first instant."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise BadSelection(
            f"{text!r} is not a time; write 2026-11-01, 2026-11-01T08:00 or 2026-11-01T08:00:00+01:00, in UTC without a zone"
        ) from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def _key_type(view: View, name: str) -> pa.DataType:
    """The Arrow type of a view's key; BadSelection names the nearest and all of them when it has no such key."""
    if name in view.keys:
        return state_schema(view).field(name).type
    if not view.keys:
        raise BadSelection(f"view {view.name!r} has no keys, so none can be {name!r}")
    raise BadSelection(f"view {view.name!r} has no key {name!r}; keys: {listed(name, view.keys)}")


def _scalar(view: View, name: str, value: object) -> pa.Scalar:
    kind = _key_type(view, name)
    if isinstance(value, pa.Scalar):
        return value
    try:
        scalar = pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise _misfit(view, name, repr(value), kind) from None
    if value is not None and scalar.as_py() != value:  # Arrow makes 5 of 5.5
        raise _misfit(view, name, repr(value), kind)
    return scalar


def _parse(view: View, name: str, text: str, kind: pa.DataType) -> pa.Scalar:
    """The scalar that a text names; Arrow's own casts read numbers, so no digit is lost on the way."""
    try:
        if pa.types.is_timestamp(kind):
            return pa.scalar(parse_time(text), kind)
        if pa.types.is_date(kind):
            return pa.scalar(date.fromisoformat(text), kind)
        if pa.types.is_binary(kind):
            return pa.scalar(b64decode(text, validate=True), kind)
        return pa.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowException, ValueError, BadSelection):
        raise _misfit(view, name, repr(text), kind) from None


def _misfit(view: View, name: str, value: str, kind: pa.DataType) -> BadSelection:
    return BadSelection(f"{value} is no value of key {name!r} of view {view.name!r}: it takes {_describe(kind)}")


def _describe(kind: pa.DataType) -> str:
    """What a key of an Arrow type accepts, in words with an example."""
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_integer(kind):
        return "a whole number of 64 bits, as 42"
    if pa.types.is_floating(kind):
        return "a number, as 1.5"
    if pa.types.is_decimal(kind):
        if not kind.scale:
            return f"a whole number of at most {kind.precision} digits, as 42"
        return f"a decimal number of at most {kind.scale} places, as 1.50"
    if pa.types.is_date(kind):
        return "a date, as 2026-11-01"
    if pa.types.is_timestamp(kind):
        return "a time, as 2026-11-01T08:00:00Z"
    if pa.types.is_binary(kind):
        return "bytes in base64, as Cv8="
    return "a text"
