"""A view of Python as SQL, written from how it is shown: the twin that the compiler has to make it of."""

import ast
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tandem.views.measures.derived import Derived
from tandem.views.measures.measure import Measure
from tandem.views.view import View
from tandem.views.windows import AllTime, Calendar, Delta, Hopping, Session, Tumbling, Window

OF_SQL: Mapping[str, str] = {"total": "sum", "mean": "avg", "minimum": "min", "maximum": "max", "correlation": "corr"}


def view_as_sql(view: View, name: str) -> str:
    """CREATE VIEW of a view over a source of this name."""
    items = [f"{text} AS {in_quotes(key)}" for key, text in view.keys.items()]
    items += [f"{measure_as_sql(measure)} AS {in_quotes(key)}" for key, measure in view.measures.items()]
    group = [in_quotes(key) for key in view.keys]
    group += [] if isinstance(view.window, AllTime) else [window_as_sql(view.window)]
    where = "" if view.where is None else f"\nWHERE {view.where}"
    by = f"\nGROUP BY {', '.join(group)}" if group else ""
    return f"CREATE VIEW {name} AS\nSELECT {f',{chr(10)}    '.join(items)}\nFROM {view.source.name}{where}{by};\n"


def measure_as_sql(measure: Measure) -> str:
    """A measure as an aggregate: the standard's names where there are some, the platform's otherwise."""
    if isinstance(measure, Derived):
        return measure.expression
    call = ast.parse(str(measure)).body[0].value  # type: ignore[attr-defined]
    name, options = call.func.id, {keyword.arg: keyword.value for keyword in call.keywords}
    condition = options.pop("filter", None)
    arguments = [(_element if name == "matches" else argument_as_sql)(argument) for argument in call.args]
    arguments += [f"{key} => {argument_as_sql(value)}" for key, value in options.items()]
    said = f"{OF_SQL.get(name, name)}({', '.join(arguments) or ('*' if name == 'count' else '')})"
    return said if condition is None else f"{said} FILTER (WHERE {ast.literal_eval(condition)})"


def argument_as_sql(node: Any) -> str:
    """An argument: an expression as it is, a number, or a list."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bool(flag)):
            return str(flag).upper()
        case ast.Tuple(elts=elements):
            return f"[{', '.join(map(_element, elements))}]"
        case ast.Dict(keys=keys, values=values):
            return f"{{{', '.join(f'{_element(key)}: {_element(value)}' for key, value in zip(keys, values, strict=True))}}}"
        case ast.Call(func=ast.Name(id="timedelta")):
            return interval(eval(ast.unparse(node), {"timedelta": timedelta}))
        case ast.Call(func=ast.Name(id="Decimal"), args=[ast.Constant(value=text)]):
            return f"DECIMAL '{text!s}'"
    return ast.unparse(node)


def _element(node: Any) -> str:
    """A member of a list: a text is a constant there."""
    match node:
        case ast.Constant(value=str(text)):
            return "'" + text.replace("'", "''") + "'"
    return argument_as_sql(node)


def window_as_sql(window: Window) -> str:
    """A window as an item of GROUP BY."""
    match window:
        case Tumbling(size):
            return f"TUMBLE(at, {interval(size)})"
        case Hopping(size, every):
            return f"HOP(at, {interval(every)}, {interval(size)})"
        case Session(gap):
            return f"SESSION(at, {interval(gap)})"
        case Calendar(unit, zone):
            return f"date_trunc('{unit}', at, '{zone}')"
        case Delta(expression, by):
            number = repr(by) if isinstance(by, int | float) else f"DECIMAL '{by}'"
            return f"DELTA({expression}, {number})"
    call = ast.parse(str(window)).body[0].value  # type: ignore[attr-defined]
    return f"{call.func.id.upper()}({', '.join(map(argument_as_sql, call.args))})"


def interval(length: timedelta) -> str:
    """A length of time."""
    if length.microseconds:
        return f"INTERVAL '{length // timedelta(microseconds=1)} microseconds'"
    return f"INTERVAL '{length // timedelta(seconds=1)}' SECOND"


def in_quotes(name: str) -> str:
    """A name in quotes, because it may be a word of SQL."""
    return f'"{name}"'
