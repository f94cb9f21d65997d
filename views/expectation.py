"""What must hold for the rows of a view before they are published: conditions over a row, or over the number of rows.

A condition holds for a row unless it is false or fails; NULL holds, as in a CHECK of SQL. It reads

* the columns of the view's answers, and `before.` and a measure: its value in the published row of the same keys and window; NULL
  if there is no such row, or no such measure of the same type;
* or `rows`, the number of rows, and `before.rows`, that of the published version; NULL if nothing is published.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, get_args

import pyarrow as pa

from tandem.views.condition_result import Severity
from tandem.views.errors import DefinitionError, listed
from tandem.views.sql import engine
from tandem.views.sql.expressions import Expression, bind_expression, type_of
from tandem.views.sql.syntax import Node, node_columns, parse, sql_text
from tandem.views.view import View, answer_schema

ROWS: Final = "rows"
BEFORE: Final = "before"
_NUMBERS: Final = ("decimal", "float", "integer")


@dataclass(frozen=True)
class Condition:
    """A condition of a view: its text, what it does, and whether it reads the number of rows in place of their columns."""

    text: str
    severity: Severity
    of_all: bool
    bound: Expression
    far: str | None
    """How far a row is from meeting it, in SQL, if the condition is a comparison of numbers."""
    reads: tuple[tuple[str, ...], ...]
    """The columns that it reads, in the order of the text; `("before", "hits")` for one of the published row."""


@lru_cache(maxsize=1024)
def conditions(view: View) -> tuple[Condition, ...]:
    """The conditions of a view, checked and typed. Raises DefinitionError naming the view, the condition and what is valid."""
    return tuple(_bind_condition(view, text, severity) for text, severity in view.expect.items())


def _bind_condition(view: View, text: str, severity: Any) -> Condition:
    place = f"view {view.name!r}, expect {text!r}" if view.name else f"a view, expect {text!r}"
    if severity not in get_args(Severity):
        raise DefinitionError(f"{place}: {severity!r} is not 'stop' or 'warn'")
    columns = answer_schema(view).names
    if taken := next((name for name in columns if name.casefold() in (ROWS, BEFORE)), None):
        raise DefinitionError(
            f"{place}: the view has a column {taken!r}, and conditions read {ROWS!r} as the number of rows and {BEFORE!r} as the "
            "published row; give the column another name"
        )
    try:
        bound = bind_expression(text, _readable(view), f"a row of view {view.name!r}")
        of_all = _reads_all(text, view)
    except DefinitionError as error:
        raise DefinitionError(f"{place} {error}") from error
    if bound.type.kind != "boolean":
        raise DefinitionError(f"{place} is of type {bound.type.sql}; expected a condition, such as 'n > 0'")
    return Condition(text, severity, of_all, bound, _distance(text, view), tuple(_reads(text, view)))


def _reads(text: str, view: View) -> Iterator[tuple[str, ...]]:
    """The columns that a condition reads, as they are declared, each once; no parameters of lambdas."""
    names = {name.casefold(): name for name in (*answer_schema(view).names, ROWS, BEFORE)}
    paths = (node["column_names"][:2] for node in node_columns(parse(text)))
    read = dict.fromkeys(tuple(names.get(name.casefold(), "") for name in path) for path in paths)
    for name, *part in read:
        if name:
            yield (name, *part) if name == BEFORE else (name,)


def _reads_all(text: str, view: View) -> bool:
    """Whether a condition reads numbers of rows. Raises DefinitionError if it reads both these and columns, or `before` whole."""
    read = [[name.casefold() for name in node["column_names"]] for node in node_columns(parse(text))]
    if [BEFORE] in read:
        raise DefinitionError(f"reads {BEFORE!r}, which is a row; write before.rows, or before. and a measure")
    of_all = [names[-1] == ROWS and names[:-1] in ([], [BEFORE]) for names in read]
    if not read:
        raise DefinitionError(f"reads no column; columns: {listed('', answer_schema(view).names)}, rows, before.rows")
    if any(of_all) and not all(of_all):
        raise DefinitionError("reads both a number of rows and columns of a row; write two conditions")
    return any(of_all)


def _readable(view: View) -> pa.Schema:
    """What conditions read."""
    answers = engine.readable(answer_schema(view))
    measures = [answers.field(name) for name in view.measures]
    return pa.schema([*answers, pa.field(ROWS, pa.int64()), pa.field(BEFORE, pa.struct([(ROWS, pa.int64()), *measures]))])


def _distance(text: str, view: View) -> str | None:
    tree = parse(text)
    sides: list[tuple[Node, Node]] = []
    match tree["type"]:
        case "COMPARE_GREATERTHAN" | "COMPARE_GREATERTHANOREQUALTO":
            sides = [(tree["right"], tree["left"])]
        case "COMPARE_LESSTHAN" | "COMPARE_LESSTHANOREQUALTO":
            sides = [(tree["left"], tree["right"])]
        case "COMPARE_EQUAL":
            sides = [(tree["left"], tree["right"]), (tree["right"], tree["left"])]
        case "COMPARE_BETWEEN":
            sides = [(tree["lower"], tree["input"]), (tree["input"], tree["upper"])]
    texts = [tuple(map(sql_text, pair)) for pair in sides]
    if not texts or any(type_of(side, _readable(view)).kind not in _NUMBERS for pair in texts for side in pair):
        return None
    return f"greatest({', '.join(f'TRY(CAST({more} AS DOUBLE) - CAST({less} AS DOUBLE))' for more, less in texts)})"
