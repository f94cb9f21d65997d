"""The text of an expression as DuckDB parses it: exactly one scalar expression."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from tandem.views.errors import DefinitionError
from tandem.views.sql import engine

Node = Mapping[str, Any]
"""A node of DuckDB's parse tree; `class` says what it is."""

_PLACES: Final = frozenset({"query_location", "query_location_length", "location"})


def enclosed(text: str) -> str:
    """The text in brackets, safe inside a statement: a comment at its end does not hide what follows."""
    return f"(\n{text}\n)"


def parse(text: str) -> Node:
    """The tree of an expression. Raises DefinitionError if the text is not exactly one expression."""
    return _one_expression(text, _select)


def parse_once(text: str) -> Node:
    """The tree of an expression, which this process does not keep. Raises as `parse`."""
    return _one_expression(text, _select.__wrapped__)


def _one_expression(text: str, select_of: Callable[[str], Node]) -> Node:
    if not text.strip():
        raise DefinitionError("an expression is empty")
    select = dict(select_of(text))
    expressions = select.pop("select_list")
    # "1) FROM t WHERE (true" has balanced brackets, too. So all but the expression must equal the tree of SELECT (1).
    if len(expressions) != 1 or expressions[0].get("alias") or select != around():
        raise DefinitionError("is more than one expression")
    node: Node = expressions[0]
    return node


def around() -> Node:
    """The tree of a SELECT without its expressions."""
    return {key: value for key, value in _select("1").items() if key != "select_list"}


def canonical(tree: Any) -> str:
    """The tree as canonical text: equal for texts that differ only in spaces, comments, brackets or case of keywords."""
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sql_text(tree: Node) -> str:
    """The SQL of a parsed expression."""
    statement = {"error": False, "statements": [{"node": {**around(), "select_list": [tree]}}]}
    sql = "SELECT json_deserialize_sql(CAST(? AS JSON))"
    row = engine.connection().execute(sql, [json.dumps(statement)]).fetchall()[0]
    return str(row[0]).removeprefix("SELECT ")


def with_columns(text: str, columns: Mapping[str, str]) -> str:
    """The expression with other expressions in place of columns, by the columns' names in any case.

    Raises DefinitionError if a text is not one expression.
    """
    trees = {name.casefold(): parse(expression) for name, expression in columns.items()}
    return sql_text(_with_columns(parse(text), trees))


def _with_columns(tree: Any, columns: Mapping[str, Node]) -> Any:
    if isinstance(tree, list):
        return [_with_columns(value, columns) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("class") == "LAMBDA" and tree["syntax_type"] == "LAMBDA_KEYWORD":
        own = lambda_parameters(tree)
        columns = {name: column for name, column in columns.items() if name not in own}
        for column in (part["column_names"][0] for part in node_columns([*columns.values()])):
            if column.casefold() in own:
                raise DefinitionError(f"has a lambda whose parameter is called {column}, as a field is; call it otherwise")
        return {**tree, "expr": _with_columns(tree["expr"], columns)}
    if tree.get("class") == "COLUMN_REF" and len(tree["column_names"]) == 1:
        return columns.get(tree["column_names"][0].casefold(), tree)
    return {key: _with_columns(value, columns) for key, value in tree.items()}


def lambda_parameters(tree: Node) -> frozenset[str]:
    """The names that a lambda gives to its parameters, without case: they are local."""
    return frozenset(node["column_names"][0].casefold() for node in nodes(tree["lhs"]) if node["class"] == "COLUMN_REF")


def nodes(tree: Any) -> Iterator[Node]:
    """Every node of a tree, outer ones first."""
    if isinstance(tree, Mapping):
        if "class" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for value in tree:
            yield from nodes(value)


def node_columns(tree: Any) -> list[Node]:
    """The columns that a tree reads."""
    return [node for node in nodes(tree) if node["class"] == "COLUMN_REF"]


def has_lambda(tree: Any) -> bool:
    """Whether a lambda is among the nodes of a tree."""
    return any(node["class"] == "LAMBDA" for node in nodes(tree))


@lru_cache(maxsize=1024)
def _select(text: str) -> Node:
    """The parsed SELECT of the text, without the places of its words. Raises DefinitionError if it does not parse."""
    parsed = json.loads(_serialize(text))
    if parsed["error"]:
        raise DefinitionError(f"is not SQL: {' '.join(parsed['error_message'].split())}")
    statements = parsed["statements"]
    if len(statements) != 1 or statements[0]["node"]["type"] != "SELECT_NODE":
        raise DefinitionError("is more than one expression")
    select: Node = _without_places(statements[0]["node"])
    return select


def _serialize(text: str) -> str:
    row = engine.connection().execute("SELECT json_serialize_sql(?)", [f"SELECT {enclosed(text)}"]).fetchall()[0]
    return str(row[0])


def _without_places(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_places(value) for key, value in tree.items() if key not in _PLACES}
    if isinstance(tree, list):
        return [_without_places(value) for value in tree]
    return tree
