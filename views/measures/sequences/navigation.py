"""Conditions of a row pattern that read other rows of the sequence, as in SQL:2016.

    PREV(x), PREV(x, n), NEXT(x), NEXT(x, n)   x in a row before or after, in the match or not
    FIRST(a.x), LAST(a.x), a.x                 x in the first or last row that the match took for symbol a so far
    FIRST(x)                                   x in the first row of the match

Such a condition is computed when a measure is presented: of what it reads, the values of each row are kept. It is computed as a
derived measure is, and is not met where it is NULL or fails. x is NULL where there is no such row.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from tandem.views.errors import DefinitionError
from tandem.views.source.value_types import ValueType
from tandem.views.sql.exact_terms import Term, terms_of
from tandem.views.sql.expressions import bind_expression, type_of
from tandem.views.sql.syntax import Node, has_lambda, node_columns, nodes, parse, sql_text

MOST_ROWS_AWAY: Final = 1000
"""The largest n."""

_NAVIGATION: Final = {"prev": -1, "next": 1}
_OF_MATCHES: Final = ("first", "last")


@dataclass(frozen=True)
class Away:
    """The value of an expression in the row this number of rows later; earlier if it is negative."""

    expression: str
    rows: int


@dataclass(frozen=True)
class MatchRow:
    """The `first` or the `last` row that a match took for a symbol; for any symbol if that is empty."""

    which: str
    symbol: str

    def __str__(self) -> str:
        return f"{self.which.upper()}({self.symbol})"


@dataclass(frozen=True)
class Referred:
    """The value of an expression in a row that a match took."""

    expression: str
    reference: MatchRow


@dataclass(frozen=True)
class Navigated:
    """A condition as SQL over columns, and what each column is; `reference` is the row of the match that it reads, if any."""

    text: str
    sql: str
    columns: Mapping[str, Away | Referred]
    reference: MatchRow | None

    def term(self, types: Mapping[str, ValueType]) -> Term:
        """What the condition computes, for the types of expressions. Raises DefinitionError if it is not a condition."""
        fields = pa.schema(
            [
                pa.field(name, types[column.expression].arrow, metadata={"kind": types[column.expression].kind})
                for name, column in self.columns.items()
            ]
        )
        try:
            bound = bind_expression(self.sql, fields, "the pattern's row")
        except DefinitionError as error:
            raise DefinitionError(f"has the condition {self.text!r}, which {error}") from error
        if bound.type.kind != "boolean":
            raise DefinitionError(f"has the condition {self.text!r} of type {bound.type.sql}; a condition is BOOLEAN")
        return terms_of(json.loads(bound.canonical), fields, type_of)


@lru_cache(maxsize=1024)
def navigation_of(text: str, symbols: Collection[str]) -> Navigated | None:
    """A condition that reads other rows; None if it reads its own alone, or is not SQL.

    Raises DefinitionError for what cannot be read.
    """
    try:
        tree = parse(text)
    except DefinitionError:
        return None
    columns: dict[Away | Referred, str] = {}
    rewritten = _rewritten(tree, text, frozenset(symbols), columns)
    references = {column.reference for column in columns if isinstance(column, Referred)}
    if not references and not _navigates(tree):
        return None
    if has_lambda(tree):
        raise DefinitionError(f"condition {text!r} has a lambda beside what reads other rows")
    if len(references) > 1:
        raise DefinitionError(
            f"condition {text!r} reads several rows of the match: of {', '.join(sorted(map(str, references)))} it can read one"
        )
    return Navigated(text, sql_text(rewritten), {name: column for column, name in columns.items()}, *(references or (None,)))


def _navigates(tree: Any) -> bool:
    """Whether a function that reads other rows is called."""
    functions = (node["function_name"].casefold() for node in nodes(tree) if node["class"] == "FUNCTION")
    return any(name in (*_NAVIGATION, *_OF_MATCHES) for name in functions)


def _rewritten(tree: Any, text: str, symbols: frozenset[str], columns: dict[Away | Referred, str]) -> Any:
    """The tree with a column for each field and each value of another row, which are added to `columns`."""
    if isinstance(tree, list):
        return [_rewritten(value, text, symbols, columns) for value in tree]
    if not isinstance(tree, dict):
        return tree
    column: Away | Referred | None = None
    function = tree["function_name"].casefold() if tree.get("class") == "FUNCTION" else ""
    if tree.get("class") == "COLUMN_REF":
        column = _field(tree, symbols)
    elif function in _NAVIGATION:
        column = _away(tree, text, symbols)
    elif function in _OF_MATCHES:
        column = _match_value(tree, text, symbols)
    if column is None:
        return {key: _rewritten(value, text, symbols, columns) for key, value in tree.items()}
    name = columns.setdefault(column, f"v{len(columns)}")
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [name]}


def _field(column: Node, symbols: frozenset[str]) -> Away | Referred:
    first, *rest = column["column_names"]
    if rest and first in symbols:
        return Referred(sql_text({**column, "alias": "", "column_names": rest}), MatchRow("last", first))
    return Away(sql_text({**column, "alias": ""}), 0)


def _away(call: Node, text: str, symbols: frozenset[str]) -> Away:
    name = call["function_name"].upper()
    arguments = [argument["expression"] for argument in call["arguments"]]
    if not 1 <= len(arguments) <= 2 or call["schema"]:
        raise DefinitionError(f"condition {text!r}: {name} has the form {name}(x) or {name}(x, n)")
    value, *number = arguments
    if _navigates(value) or any(isinstance(_field(column, symbols), Referred) for column in node_columns(value)):
        raise DefinitionError(
            f"condition {text!r}: x of {name}(x) reads another row; it can read fields alone, and PREV(x, 2) is two rows before"
        )
    digits = str(number[0].get("literal", {}).get("text")) if number else "1"
    if not digits.isdecimal() or int(digits) > MOST_ROWS_AWAY:
        raise DefinitionError(f"condition {text!r}: n of {name}(x, n) is not a number from 0 to {MOST_ROWS_AWAY}")
    return Away(sql_text(value), _NAVIGATION[name.casefold()] * int(digits))


def _match_value(call: Node, text: str, symbols: frozenset[str]) -> Away | Referred:
    name = call["function_name"].upper()
    arguments = [argument["expression"] for argument in call["arguments"]]
    if (
        len(arguments) != 1
        or call["schema"]
        or call["distinct"]
        or call["filter"]
        or call["order_bys"]["orders"]
        or _navigates(arguments)
    ):
        raise DefinitionError(f"condition {text!r}: {name} has the form {name}(a.x) or {name}(x), for a symbol a and fields x")
    fields = {_field(column, symbols) for column in node_columns(arguments[0])}
    taken = {field.reference.symbol for field in fields if isinstance(field, Referred)}
    if len(taken) + any(isinstance(field, Away) for field in fields) > 1:
        raise DefinitionError(f"condition {text!r}: {name} reads one row, but its fields are of different symbols")
    value = sql_text(_without_symbol(arguments[0], symbols))
    if name == "LAST" and not taken:
        return Away(value, 0)
    return Referred(value, MatchRow(name.casefold(), *(taken or ("",))))


def _without_symbol(tree: Any, symbols: frozenset[str]) -> Any:
    if isinstance(tree, list):
        return [_without_symbol(value, symbols) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("class") == "COLUMN_REF" and len(tree["column_names"]) > 1 and tree["column_names"][0] in symbols:
        return {**tree, "column_names": tree["column_names"][1:]}
    return {key: _without_symbol(value, symbols) for key, value in tree.items()}


def expressions_of(conditions: Sequence[Navigated]) -> tuple[str, ...]:
    """The different expressions that they read, as they occur."""

    def every() -> Iterator[str]:
        for condition in conditions:
            yield from (column.expression for column in condition.columns.values())

    return tuple(dict.fromkeys(every()))
