"""What to write in place of a value that is not a window, a measure or a text, such as `1h`, or a function."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType
from typing import Any, Final

from tandem.views.definition_text import call, span
from tandem.views.errors import DefinitionError

UNITS: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_MOST_SHOWN: Final = 200
_SPAN: Final = re.compile(r"\s*(\d+)\s*(d(?:ays?)?|h(?:ours?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])\s*", re.IGNORECASE)
_EXAMPLES: Final = {
    "keys": "{'city': 'city'}",
    "measures": "{'n': count()}",
    "docs": "{'n': 'the number of orders'}",
    "units": "{'revenue': 'EUR'}",
    "tolerances": "{'revenue': 0.05}",
    "lookup": "{'r': regions.now(code='region')}",
    "expect": "{'share BETWEEN 0 AND 1': 'stop'}",
}
MAPPINGS: Final = (*_EXAMPLES,)
"""The parameters of View that are dicts."""


def display_text(value: object) -> str:
    """A value in a message: a function, class or method by its name, because its address says nothing, and what is long by its
    kind.
    """
    if isinstance(value, MethodType):
        return f"the method {value.__name__}"
    if isinstance(value, MemberDescriptorType):
        return f"{value.__objclass__.__name__}.{value.__name__}"
    if isinstance(value, FunctionType | BuiltinFunctionType | type):
        kind = "class" if isinstance(value, type) else "function"
        return "a lambda" if value.__name__ == "<lambda>" else f"the {kind} {value.__name__}"
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"a {type(value).__name__}"


def not_a_text(value: object) -> str:
    """Why a value is not an expression, and what would be one."""
    reason = "is not a text: an expression is SQL in a text, such as 'amount' or 'upper(city)'"
    match value:
        case [str(text)]:
            return f"{reason}; write {text!r}"
    return reason


def not_a_measure(value: object) -> str:
    """Why a value is not a measure, and what would be one."""
    if isinstance(value, FunctionType):
        return f"the function {value.__name__} is not a measure; call it: {value.__name__}()"
    # max("n") of Python is the text's last letter.
    hint = "; Python's own sum, min and max are not measures" if isinstance(value, str) and len(value) == 1 else ""
    return f"{display_text(value)} is not a measure, such as count() or total('...'){hint}"


def not_a_window(value: object) -> str:
    """Why a value is not a window, and what would be one."""
    parts: Mapping[str, float] = lengths(value) if isinstance(value, str) else {}
    if isinstance(value, timedelta) and value > timedelta(0):
        parts = span(value)
    if parts:
        return f"{display_text(value)} is not a window; write {call('tumbling', **parts)}"
    if isinstance(value, FunctionType) and value.__module__.startswith("tandem.views.windows."):
        example = {"all_time": "all_time()", "tumbling": "tumbling(hours=1)"}.get(value.__name__, f"{value.__name__}(...)")
        return f"the function {value.__name__} is not a window; call it: {example}"
    example = "tumbling(minutes=1) or all_time()"
    return f"{display_text(value)} is not a window of Tandem, such as {example}; a project cannot define its own"


def not_a_mapping(part: str, value: Any) -> str:
    """Why a value is not a dict by names, and what would be one; `part` is a parameter of View."""
    example = _EXAMPLES[part]
    if part == "keys":
        names = [value] if isinstance(value, str) else [*value] if isinstance(value, list | tuple | set) else []
        texts = [name for name in names if isinstance(name, str) and name.isidentifier()]
        example = repr({name: name for name in texts}) if texts else example
    return f"{part} is a {type(value).__name__}, not a dict of names; write {part}={example}"


def lengths(text: str) -> dict[str, int]:
    """`1h 30m` as hours 1 and minutes 30; empty if it is not a length, or has a unit twice."""
    spans = [(UNITS[unit[0].lower()], int(number)) for number, unit in _SPAN.findall(text)]
    parts = dict(spans)
    return {} if _SPAN.sub("", text) or len(parts) < len(spans) else parts


def members(parameter: str, values: Any, example: str) -> tuple[Any, ...]:
    """The values of a parameter that takes several. Raises DefinitionError for one value that is not in a tuple."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise DefinitionError(f"{parameter} {values!r} is not a tuple, such as {example}")
    return tuple(values)
