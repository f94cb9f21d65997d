"""Conditions that a server computes for strangers in its own process: their cost is bounded by their length.

Any function would break that bound: `len(repeat(page, 100000)) > 3` takes 29 s and 1 GB for 65 536 rows, while the slowest simple
condition of 965 characters takes 0.3 s. SQL of any kind runs in the confined process of `serving/sql` instead. That has one
statement's limits and process, so a stream, which asks again at every commit, would hold one for itself.
"""

from typing import Final

from tandem.views.errors import DefinitionError
from tandem.views.sql.syntax import nodes, parse_once

LONGEST: Final = 400
"""The most characters of a stranger's condition."""

_CLASSES: Final = frozenset({"BETWEEN", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR"})
_FUNCTIONS: Final = frozenset({"+", "-", "*"})
_OPERATORS: Final = frozenset({"COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"})


def check_simple(text: str) -> None:
    """Raise DefinitionError unless a condition is short and has nothing but columns, constants and the operators below."""
    if len(text) > LONGEST:
        raise DefinitionError(f"has {len(text)} characters; a server computes conditions of at most {LONGEST}")
    for node in nodes(parse_once(text)):
        kind, name = node["class"], node.get("function_name", node["type"])
        allowed = {"FUNCTION": _FUNCTIONS, "OPERATOR": _OPERATORS}.get(kind, {name})
        if kind not in _CLASSES or name not in allowed:
            what = f"{name!r}" if kind == "FUNCTION" else kind.replace("_", " ").lower()
            raise DefinitionError(
                f"has {what}, which a server does not compute in conditions; it computes comparisons of columns and constants "
                "with AND, OR, NOT, BETWEEN, IN, IS NULL, +, - and *"
            )
