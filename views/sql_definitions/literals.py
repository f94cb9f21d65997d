"""Constants of SQL as Python values: texts, numbers, truth values, times, lengths of time, lists and structs of these."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sqlglot.tokenizer_core import TokenType

from tandem.views.sql_definitions.statements import Fragment, in_quotes

_UNITS: Final = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
_SPAN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_WORDS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
_VALID: Final = (
    "a constant is a text in single quotes, a number, TRUE or FALSE, INTERVAL '10 seconds', DECIMAL '0.5', a list (1, 2) or a "
    "struct {'small': 'amount < 1'}"
)

Calls = Mapping[str, Callable[..., Any]]


def constant(part: Fragment, calls: Calls | None = None) -> Any:
    """The value of a constant, or of a call of one of the functions. Raises DefinitionError."""
    if not part.words:
        raise part.fault(f"a value is missing; {_VALID}")
    first = part.words[0]
    if len(part.words) == 1 and first.token_type in (TokenType.STRING, TokenType.HEREDOC_STRING):
        return first.text
    if len(part.words) == 1 and not in_quotes(first) and first.text.upper() in _WORDS:
        return _WORDS[first.text.upper()]
    if part.begins("INTERVAL"):
        return interval(part)
    if part.begins("ARRAY", "["):
        part = part.cut(1)
    if part.begins("(") or part.begins("["):
        inner, after = part.brackets(0)
        if after == len(part.words):
            return tuple(constant(item, calls) for item in inner.split(","))
    if part.begins("{"):
        inner, after = part.brackets(0)
        if after == len(part.words):
            return _struct(inner, calls)
    if (called := part.call()) is not None and calls is not None and called[0].lower() in calls:
        return calls[called[0].lower()](*(constant(item, calls) for item in called[1]))
    if len(part.words) == 2 and part.words[1].token_type == TokenType.STRING:
        if part.begins("DECIMAL") or part.begins("NUMERIC"):
            return _decimal(part)
        if part.begins("TIMESTAMP") or part.begins("TIMESTAMPTZ"):
            return _time(part)
    return _number(part)


def _struct(part: Fragment, calls: Calls | None) -> dict[str, Any]:
    """The members by name. Raises DefinitionError for a name that is there twice, of which one value would be lost."""
    members: dict[str, Any] = {}
    for item in part.split(","):
        name, value = _member(item, calls)
        if name in members:
            raise item.fault(f"{name!r} is given twice")
        members[name] = value
    return members


def _member(part: Fragment, calls: Calls | None) -> tuple[str, Any]:
    """A name and a value: 'small': 'amount < 1', with or without quotes around the name."""
    if len(part.words) < 3 or not part.begins(":", at=1) or part.words[0].token_type == TokenType.NUMBER:
        raise part.fault(f"a member of a struct is a name, a colon and a constant; {_VALID}")
    return part.words[0].text, constant(part.cut(2), calls)


def interval(part: Fragment) -> timedelta:
    """A length of time: INTERVAL '1 hour', INTERVAL '1' HOUR, INTERVAL 90 SECONDS. Raises DefinitionError."""
    words = part.words[1:] if part.begins("INTERVAL") else ()
    text = " ".join(word.text for word in words)
    spans = _SPAN.findall(text)
    if not spans or _SPAN.sub("", text):
        raise part.fault(f"{part.text} is not a length of time; an example is INTERVAL '10 minutes'")
    length = timedelta(0)
    for number, unit in spans:
        name = unit.lower().removesuffix("s")
        if name not in _UNITS:
            hint = "; windows of the calendar are date_trunc('month', at, 'UTC')" if name in ("month", "quarter", "year") else ""
            raise part.fault(f"{unit} has no fixed length; units: {', '.join(_UNITS)}{hint}")
        length += float(number) * _UNITS[name] if "." in number else int(number) * _UNITS[name]
    return length


def _decimal(part: Fragment) -> Decimal:
    try:
        return Decimal(part.words[1].text)
    except InvalidOperation as error:
        raise part.fault(f"{part.words[1].text!r} is not a number") from error


def _time(part: Fragment) -> datetime:
    try:
        time = datetime.fromisoformat(part.words[1].text)
    except ValueError as error:
        raise part.fault(f"{part.words[1].text!r} is not a time such as '2026-11-01T00:00:00Z'") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _number(part: Fragment) -> int | float:
    text = "".join(part.text.split())
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise part.fault(f"{part.text} is not a constant; {_VALID}")
