"""The right form of a call that a definition writes as other tools have it: count("n"), tumbling("1h"), sum("n") of Python."""

import ast
import builtins
import re
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, Final

from tandem.views import public

_PARTS: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_UNITS: Final = tuple(_PARTS.values())
_SPAN: Final = re.compile(r"\s*(\d+)\s*(d(?:ays?)?|h(?:ours?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])\s*", re.IGNORECASE)
_BY_PARTS: Final = ("tumbling", "session")
_BUILTINS: Final = ("sum", "min", "max")
_ALL: Final = ("*", "")


def right_form(called: str, call: ast.Call | None) -> str:
    """How a function of the platform is called, after a call that Python refused; `call` is that call, if it was found."""
    function = getattr(public, called)
    text = _first_text(call)
    if called == "count":
        if text is None or text in _ALL:
            return "count takes no expression: count()"
        return (
            f"count takes no expression: count() counts events, count(filter={f'{text} IS NOT NULL'!r}) those with a value, and "
            f"approx_count_distinct({text!r}) distinct values"
        )
    if called in _BY_PARTS and text is not None:
        units = [unit for unit in _UNITS if unit in signature(function).parameters]
        parts = _parts(text)
        if parts and parts.keys() <= set(units):
            return f"{called} takes parts of a length by name: {called}({_arguments(parts)})"
        return f"{called} takes parts of a length by name: {', '.join(units)}; {text!r} is not made of these"
    if called == "hopping" and text is not None and call is not None:
        return _hopping_form(call, text)
    return f"{called} is called as {called}{_parameters(function)}"


def builtin_form(names: Mapping[str, Any], call: ast.Call) -> str | None:
    """What to write in place of a call of Python's own sum, min or max with a text; None if it is another call."""
    name = getattr(call.func, "id", "")
    if name not in _BUILTINS or names.get(name, getattr(builtins, name)) is not getattr(builtins, name):
        return None
    text = _first_text(call)
    measure = getattr(public, name).__name__
    return None if text is None else f"{name} is Python's own here; write {measure}({text!r}), or import {name} from tandem"


def calls(statement: ast.AST, line: int) -> Iterator[ast.Call]:
    """The calls of a statement that begin in a line."""
    yield from (node for node in ast.walk(statement) if isinstance(node, ast.Call) and node.lineno == line)


def _first_text(call: ast.Call | None) -> str | None:
    match call:
        case ast.Call(args=[ast.Constant(value=str(text)), *_]):
            return text
    return None


def _hopping_form(call: ast.Call, text: str) -> str:
    """`hopping("1h", every="10m")` with timedeltas; what is not a length is left to the reader."""
    others = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "every")]
    every = next((other.value for other in others if isinstance(other, ast.Constant) and isinstance(other.value, str)), "")
    size, hop = (f"timedelta({_arguments(parts)})" if (parts := _parts(length)) else "timedelta(...)" for length in (text, every))
    return f"hopping takes timedeltas: hopping({size}, every={hop})"


def _parts(text: str) -> dict[str, int]:
    """`1h 30m` as hours 1 and minutes 30; empty if it is not a length, or has a unit twice."""
    spans = [(_PARTS[unit[0].lower()], int(number)) for number, unit in _SPAN.findall(text)]
    parts = dict(spans)
    return {} if _SPAN.sub("", text) or len(parts) < len(spans) else parts


def _arguments(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{unit}={number}" for unit, number in parts.items())


def _parameters(function: Any) -> str:
    """The parameters of a function without their types."""
    plain = signature(function)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in plain.parameters.values()]
    return str(plain.replace(parameters=bare, return_annotation=plain.empty))
