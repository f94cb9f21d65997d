"""The right form of a call that a definition writes as other tools have it: count("n"), tumbling("1h"), sum("n") of Python."""

import ast
import builtins
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, Final

from tandem.views import public
from tandem.views.source.event import Event
from tandem.views.value_forms import UNITS, lengths

_BY_PARTS: Final = ("tumbling", "session")
_BUILTINS: Final = ("sum", "min", "max")
_MOST_PARAMETERS: Final = 6
_OFFERED: Final = frozenset(vars(public)["__all__"])
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
    if called in _BY_PARTS and call is not None and call.args:
        units = [unit for unit in UNITS.values() if unit in signature(function).parameters]
        written = _timedelta_arguments(call.args[0]) if text is None else lengths(text)
        if written and written.keys() <= set(units):
            return f"{called} takes parts of a length by name: {called}({_arguments(written)})"
        if text is not None:
            return f"{called} takes parts of a length by name: {', '.join(units)}; {text!r} is not made of these"
        return f"{called} takes parts of a length by name: {called}(minutes=10); parts: {', '.join(units)}"
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


def class_form(names: Mapping[str, Any], call: ast.Call) -> str | None:
    """What to write in place of an event that a source is to have as its type; None if the call makes no event."""
    name = getattr(call.func, "id", "")
    called = names.get(name)
    if not (isinstance(called, type) and issubclass(called, Event)):
        return None
    return f"{name}() makes an event, for which it needs values; the type of a source's events is the class itself: event={name}"


def operation_form(statement: ast.AST, line: int) -> str | None:
    """What to write in place of an operation of Python on measures, or on the text of an expression; None for another line."""
    for node in ast.walk(statement):
        match node:
            case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]) if node.lineno == line:
                if any(isinstance(side, ast.Call) and getattr(side.func, "id", "") in _OFFERED for side in (left, right)):
                    return 'a measure of other measures is derived, by their names: derived("revenue / orders")'
                if isinstance(left, ast.Constant) and isinstance(left.value, str):
                    return f"an expression is one text: {ast.unparse(node).replace(repr(left.value), left.value, 1)!r}"
    return None


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
    written = (lengths(length) for length in (text, every))
    size, hop = (f"timedelta({_arguments(parts)})" if parts else "timedelta(...)" for parts in written)
    return f"hopping takes timedeltas: hopping({size}, every={hop})"


def _timedelta_arguments(length: ast.expr) -> dict[str, str]:
    """The parts of a `timedelta(hours=1)`, as they are written."""
    match length:
        case ast.Call(func=ast.Name(id="timedelta") | ast.Attribute(attr="timedelta"), args=[], keywords=keywords):
            return {keyword.arg: ast.unparse(keyword.value) for keyword in keywords if keyword.arg}
    return {}


def _arguments(parts: Mapping[str, object]) -> str:
    return ", ".join(f"{unit}={number}" for unit, number in parts.items())


def _parameters(function: Any) -> str:
    """The parameters of a function without their types; of a long list only those that every call names."""
    plain = signature(function)
    if len(plain.parameters) > _MOST_PARAMETERS:
        needed = [name for name, parameter in plain.parameters.items() if parameter.default is parameter.empty]
        return f"({', '.join(f'{name}=...' for name in needed)}, ...)"
    bare = [parameter.replace(annotation=parameter.empty) for parameter in plain.parameters.values()]
    return str(plain.replace(parameters=bare, return_annotation=plain.empty))
