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
    row = engine.connection().execute("SELECT json_serialize_sql(?)", [f"SELECT {enclosed(text)}"]).fetchall()[0]
    parsed = json.loads(row[0])
    if parsed["error"]:
        raise DefinitionError(f"is not SQL: {' '.join(parsed['error_message'].split())}")
    statements = parsed["statements"]
    if len(statements) != 1 or statements[0]["node"]["type"] != "SELECT_NODE":
        raise DefinitionError("is more than one expression")
    select: Node = _without_places(statements[0]["node"])
    return select


def _without_places(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_places(value) for key, value in tree.items() if key not in _PLACES}
    if isinstance(tree, list):
        return [_without_places(value) for value in tree]
    return tree
