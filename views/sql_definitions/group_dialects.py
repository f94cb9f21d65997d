"""Windows of Flink, Spark and PostgreSQL: what they group by, as an item of GROUP BY in definitions.sql."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlglot import exp

from tandem.views.errors import DefinitionError
from tandem.views.sql_definitions.literals import interval
from tandem.views.sql_definitions.statements import Script

_FIXED: Final = ("second", "minute", "hour", "day")
_OF_CALENDAR: Final = ("day", "week", "month")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class GroupWindow(NamedTuple):
    """A window as definitions.sql has it."""

    sql: str


def group_window(node: exp.Expression) -> GroupWindow | None:
    """The window that an item of GROUP BY is in its dialect; None if it is a key. Raises DefinitionError if it cannot be said."""
    if isinstance(node, exp.Anonymous):
        build = _CALLS.get(str(node.this).lower())
        return None if build is None else GroupWindow(build(list(node.expressions)))
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return _time_window(node)
    if isinstance(node, exp.DateBin):
        return GroupWindow(_bin(node))
    return None


def lacks_zone(node: Any) -> bool:
    """Whether a time is truncated without a zone, so that its days are those of UTC here."""
    return node.args.get("zone") is None and not isinstance(node.this, exp.AtTimeZone)


def _tumble(arguments: list[exp.Expression]) -> str:
    _count(arguments, 2, "TUMBLE(time, size)")
    return f"TUMBLE({_column(arguments[0])}, {_length(arguments[1])})"


def _hop(arguments: list[exp.Expression]) -> str:
    _count(arguments, 3, "HOP(time, step, size)")
    return f"HOP({_column(arguments[0])}, {_length(arguments[1])}, {_length(arguments[2])})"


def _session(arguments: list[exp.Expression]) -> str:
    _count(arguments, 2, "SESSION(time, gap)")
    return f"SESSION({_column(arguments[0])}, {_length(arguments[1])})"


def _spark_window(arguments: list[exp.Expression]) -> str:
    if len(arguments) > 3:
        raise DefinitionError("windows with a start offset cannot be said: they begin at multiples of their size since 1970")
    size = arguments[1:2]
    return _tumble(arguments) if len(arguments) == 2 else _hop([arguments[0], *arguments[2:], *size])


def _cumulate(arguments: list[exp.Expression]) -> str:  # noqa: ARG001  of any form
    raise DefinitionError(
        "cumulative windows are not kept: take TUMBLE of the step, and ask a range of it as one window with --one"
    )


_CALLS: Final[Mapping[str, Callable[[list[exp.Expression]], str]]] = {
    "tumble": _tumble,
    "hop": _hop,
    "session": _session,
    "cumulate": _cumulate,
    "time_window": _spark_window,
    "session_window": _session,
}


def _time_window(node: exp.Expression) -> GroupWindow | None:
    """date_trunc of the event time: of a fixed length in UTC, or of the calendar; years and quarters stay keys."""
    unit, time, zone = str(node.args["unit"].name).lower(), node.this, node.args.get("zone")
    if isinstance(time, exp.AtTimeZone):
        time, zone = time.this, time.args["zone"]
    if not isinstance(time, exp.Column):
        return None
    if zone is None and unit in _FIXED:
        return GroupWindow(f"TUMBLE({_column(time)}, INTERVAL '1 {unit}')")
    if unit in _OF_CALENDAR and (zone is None or isinstance(zone, exp.Literal)):
        return GroupWindow(f"date_trunc('{unit}', {_column(time)}, '{'UTC' if zone is None else zone.name}')")
    if zone is not None:
        raise DefinitionError(f"windows of a {unit} in a zone cannot be said; units: {', '.join(_OF_CALENDAR)}")
    return None


def _bin(node: exp.DateBin) -> str:
    """date_bin, whose origin has to be where windows begin here."""
    origin = node.args.get("unit") or node.args.get("zone")
    text = next((part.name for part in origin.find_all(exp.Literal)), "") if origin is not None else ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise DefinitionError(f"the origin of date_bin is {text!r}, not a constant time") from None
    size = _length(node.this)
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if (time - _EPOCH) % _duration(size):
        raise DefinitionError(f"windows begin at multiples of their size since 1970, and the origin {text} is none")
    return f"TUMBLE({_column(node.expression)}, {size})"


def _column(node: exp.Expression) -> str:
    if not isinstance(node, exp.Column):
        raise DefinitionError(f"the time of a window is a column, the source's event time; got {node.sql()}")
    return str(node.name)


def _length(node: exp.Expression) -> str:
    """A length of time as INTERVAL, from INTERVAL or from a text such as Spark's '10 minutes'."""
    if isinstance(node, exp.Interval) and node.this is not None:
        unit = node.args.get("unit")
        text = f"{node.this.name} {unit.name.lower()}" if unit is not None else node.this.name
    elif isinstance(node, exp.Literal) and node.is_string:
        text = node.name.removeprefix("interval ")
    else:
        raise DefinitionError(f"the length of a window is an INTERVAL; got {node.sql()}")
    _duration(f"INTERVAL '{text}'")
    return f"INTERVAL '{text}'"


def _duration(text: str) -> timedelta:
    (part,) = Script(text, "").statements()
    try:
        return interval(part)
    except DefinitionError as error:
        raise DefinitionError(str(error).split(": ", 1)[1]) from error


def _count(arguments: list[exp.Expression], number: int, form: str) -> None:
    if len(arguments) != number:
        raise DefinitionError(f"the window has the form {form}, without an offset; got {len(arguments)} arguments")
