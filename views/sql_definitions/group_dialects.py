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
_BUCKETS: Final = datetime(2000, 1, 3, tzinfo=UTC)
"""A Monday, at which buckets of TimescaleDB begin unless they are months."""
_WEEK: Final = timedelta(days=7)


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


def _time_bucket(arguments: list[exp.Expression]) -> str:
    """TimescaleDB's time_bucket, in UTC or in a zone."""
    if not 2 <= len(arguments) <= 3 or not all(isinstance(each, exp.Literal) and each.is_string for each in arguments[2:]):
        raise DefinitionError(
            "the window has the form time_bucket(size, time) or time_bucket(size, time, 'zone'), without an origin"
        )
    size, time, zone = arguments[0], _column(arguments[1]), arguments[2].name if arguments[2:] else None
    text = _length_text(size)
    number, _, unit = text.partition(" ")
    if number == "1" and unit.removesuffix("s") == "month":
        return f"date_trunc('month', {time}, '{zone or 'UTC'}')"
    length = _duration(f"INTERVAL '{text}'")
    if length == _WEEK or (zone is not None and length == timedelta(days=1)):
        return f"date_trunc('{'week' if length == _WEEK else 'day'}', {time}, '{zone or 'UTC'}')"
    if zone is not None:
        raise DefinitionError(f"windows of {text} in a zone cannot be said; sizes: 1 day, 1 week, 1 month")
    if (_BUCKETS - _EPOCH) % length:
        raise DefinitionError(
            f"windows begin at multiples of their size since 1970, and buckets of {text} at others, from a Monday"
        )
    return f"TUMBLE({time}, INTERVAL '{text}')"


_CALLS: Final[Mapping[str, Callable[[list[exp.Expression]], str]]] = {
    "tumble": _tumble,
    "hop": _hop,
    "session": _session,
    "cumulate": _cumulate,
    "time_bucket": _time_bucket,
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
    text = _length_text(node)
    _duration(f"INTERVAL '{text}'")
    return f"INTERVAL '{text}'"


def _length_text(node: exp.Expression) -> str:
    if isinstance(node, exp.Interval) and node.this is not None:
        unit = node.args.get("unit")
        return f"{node.this.name} {unit.name.lower()}" if unit is not None else str(node.this.name)
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.name.removeprefix("interval "))
    raise DefinitionError(f"the length of a window is an INTERVAL; got {node.sql()}")


def _duration(text: str) -> timedelta:
    (part,) = Script(text, "").statements()
    try:
        return interval(part)
    except DefinitionError as error:
        raise DefinitionError(str(error).split(": ", 1)[1]) from error


def _count(arguments: list[exp.Expression], number: int, form: str) -> None:
    if len(arguments) != number:
        raise DefinitionError(f"the window has the form {form}, without an offset; got {len(arguments)} arguments")
