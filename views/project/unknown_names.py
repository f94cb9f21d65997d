"""What to write in place of a name that a definition uses and Python does not know: a field, or a function of another tool."""

import ast
import datetime as dt
import enum
import typing
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from tandem.views import public

_ELSEWHERE: Final = {
    **dict.fromkeys(("median", "percentile", "percentiles", "quantile", "quantiles"), 'approx_quantiles("amount", (0.5, 0.99))'),
    **dict.fromkeys(("distinct", "nunique", "count_unique", "distinct_values"), 'count_distinct("customer")'),
    **dict.fromkeys(("average",), 'mean("amount")'),
    **dict.fromkeys(("top", "top_k", "mode"), 'approx_top_k("city", 10)'),
    **dict.fromkeys(("std", "stdev"), 'stddev("amount")'),
    **dict.fromkeys(("var",), 'variance("amount")'),
    **dict.fromkeys(("earliest", "any_value"), 'first("city")'),
    **dict.fromkeys(("latest",), 'last("city")'),
    **dict.fromkeys(("ratio", "divide", "expression"), 'derived("revenue / orders")'),
    **dict.fromkeys(("sliding", "rolling", "hop"), "hopping(timedelta(hours=1), every=timedelta(minutes=10))"),
    **dict.fromkeys(("tumble", "fixed", "window", "hours", "hourly", "minutes"), "tumbling(hours=1)"),
    **dict.fromkeys(("day", "days", "daily"), 'calendar("day", zone="Europe/Berlin")'),
    **dict.fromkeys(("week", "weeks", "weekly"), 'calendar("week", zone="Europe/Berlin")'),
    **dict.fromkeys(("month", "months", "monthly"), 'calendar("month", zone="Europe/Berlin")'),
    **dict.fromkeys(("sessions", "session_window"), "session(minutes=30)"),
}
"""By the names of other tools, a call that computes the same."""
_TYPES: Final = {
    **{name: module.__name__ for module in (typing, dt, enum) for name in module.__all__},
    "Decimal": "decimal",
    "UUID": "uuid",
}
"""The module of Python's that has a type, by the type's name."""


def unknown_name(name: str, statements: Iterable[ast.stmt], *, called: bool) -> str | None:
    """A sentence for a name that is not defined; None if nothing is like it.

    `statements` are those of the project's file, and `called` says that the name is called.
    """
    if name in _ELSEWHERE and called:
        return f"tandem has no {name!r}; write {_ELSEWHERE[name]}"
    if name in _fields(statements) and not called:
        return f"{name!r} is not defined; a field is named by a text: {name!r}"
    offered = vars(public)["__all__"]
    if name in offered:
        return f"{name!r} is not imported; write `from tandem import {name}`"
    if name in _TYPES:
        return f"{name!r} is not imported; write `from {_TYPES[name]} import {name}`"
    similar = get_close_matches(name, offered)
    return f"{name!r} is not defined; similar names of tandem: {', '.join(similar)}" if similar else None


def _fields(statements: Iterable[ast.stmt]) -> set[str]:
    """The names of the fields of all classes."""
    bodies = (line for statement in statements if isinstance(statement, ast.ClassDef) for line in statement.body)
    return {line.target.id for line in bodies if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)}
