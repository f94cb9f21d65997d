"""Checks of a foreign statement, parsed by DuckDB's own parser: one SELECT, over views, with functions of their arguments only.

DuckDB writes the syntax tree of a statement as JSON; any node that is not known to be harmless is refused. This is one of several
barriers: the database is empty and has no access to anything outside, and the process cannot open anything.
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import duckdb

from tandem.serving.sql.messages import StatementRefused
from tandem.views.sql.engine import quoted

TABLE_FUNCTIONS: Final = ("generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest")
"""The functions that are allowed in FROM: they return rows of their arguments alone."""

REFUSED_FUNCTIONS: Final = frozenset(
    {"current_setting", "getenv", "getvariable", "nextval", "currval", "setval", "pg_sleep", "sleep_ms", "stats", "write_log"}
    | {"json_execute_serialized_sql", "read_blob", "read_text"}
)
"""Functions that look at or act on the process rather than on values."""

_QUERIES: Final = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_DESCRIBED: Final = {"DESCRIBE", "SUMMARY"}
_DEPTH: Final = 6_000
"""Levels of JSON: an expression may be 1000 deep, each with some of these."""
_MOST_VIEWS: Final = 100

Node = dict[str, Any]


def views_named(connection: duckdb.DuckDBPyConnection, statement: str) -> list[str]:
    """The names that the statement reads, without those that it defines by WITH. Raises Refused."""
    try:
        statements = connection.extract_statements(statement)
    except duckdb.Error as error:
        raise StatementRefused(worded(error), "statement") from None
    if len(statements) != 1:
        raise StatementRefused(f"got {len(statements)} statements; expected exactly one SELECT", "statement")
    try:
        kind = statements[0].type
    except ValueError:  # one of those that DuckDB's Python does not know
        raise StatementRefused("this kind of statement is refused; expected exactly one SELECT", "statement") from None
    if kind != duckdb.StatementType.SELECT:
        raise StatementRefused(f"{kind.name} is refused; expected exactly one SELECT", "statement")
    # Not by DuckDB's get_table_names, which does not know columns: it refuses USING, NATURAL and COLUMNS('n.*').
    read = set()
    for node, own in _nodes(_tree(connection, statement)):
        _check(node)
        if node.get("type") == "BASE_TABLE" and str(node["table_name"]).casefold() not in own:
            read.add(str(node["table_name"]))
    names = sorted(read)
    if len(names) > _MOST_VIEWS:
        raise StatementRefused(f"the statement names {len(names)} views; the limit is {_MOST_VIEWS}", "statement")
    return names


def worded(error: BaseException) -> str:
    """DuckDB's message, in one line of printable characters."""
    text = str(error).split("\n\nLINE ")[0].split("\nLINE ")[0]
    text = re.sub(r"^(\w+ ?\w* Error: )+", "", text)
    text = re.sub(r'[.,;] (Use|You can) "?(SET|PRAGMA).*$', "", text, flags=re.DOTALL)
    text = re.sub(r"Python exception occurred while executing the UDF: \w+: ", "", text)
    line = " ".join(text.split())[:600] or type(error).__name__
    # Values may contain control sequences of terminals.
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)


def _tree(connection: duckdb.DuckDBPyConnection, statement: str) -> Node:
    try:
        ((written,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()
    except duckdb.Error as error:
        raise StatementRefused(worded(error), "statement") from None
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_DEPTH)
    try:
        tree: Node = json.loads(str(written))
    except RecursionError:
        raise StatementRefused("the statement nests too deeply", "statement") from None
    finally:
        sys.setrecursionlimit(limit)
    if tree.get("error") is not False:
        raise StatementRefused(" ".join(str(tree.get("error_message", "the statement cannot be read")).split()), "statement")
    return tree


def _nodes(tree: Any) -> Iterator[tuple[Node, frozenset[str]]]:
    """Each node, and the names that WITH has defined there: each name of a WITH counts in those after it, and below."""
    waiting: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        one, own = waiting.pop()
        if isinstance(one, list):
            waiting += [(part, own) for part in one]
        elif isinstance(one, dict):
            yield one, own
            for named in one.get("cte_map", {}).get("map", ()):
                waiting.append((named.get("value"), own))
                own |= {str(named.get("key")).casefold()}
            recursive = own
            if one.get("type") == "RECURSIVE_CTE_NODE":  # a recursive one reads itself only on its right side
                recursive |= {str(one.get("cte_name")).casefold()}
            waiting += [(part, recursive if name == "right" else own) for name, part in one.items() if name != "cte_map"]


def _check(node: Node) -> None:
    """Raise Refused for a part of a statement that is not known to be harmless."""
    kind = node.get("type")
    if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _QUERIES:
        raise StatementRefused(
            f"{kind.removesuffix('_NODE').replace('_', ' ').lower()} is refused: a statement can only read", "statement"
        )
    if kind == "TABLE_FUNCTION":
        function = node["function"]
        name = str(function.get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS or function.get("schema") or function.get("catalog"):
            raise StatementRefused(f"{name} is not allowed in FROM; use views or {', '.join(TABLE_FUNCTIONS)}", "statement")
    if kind == "BASE_TABLE" and (node.get("schema_name") or node.get("catalog_name")):
        path = ".".join(
            quoted(part) for part in (node.get("catalog_name"), node.get("schema_name"), node.get("table_name")) if part
        )
        raise StatementRefused(f"{path} is refused: name views without a schema", "view")
    if kind == "SHOW_REF" and (node.get("show_type") not in _DESCRIBED or node.get("query") is None):
        raise StatementRefused("SHOW is refused: DESCRIBE shows the columns of a view", "statement")
    called = node.get("function_name")
    if isinstance(called, str) and called.lower() in REFUSED_FUNCTIONS:
        raise StatementRefused(f"the function {called} is refused: it reads more than its arguments", "statement")
