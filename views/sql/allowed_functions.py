"""Which of DuckDB's functions an expression may call: scalar ones whose result depends on their arguments alone."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from tandem.views.errors import DefinitionError, nearest_first
from tandem.views.sql import engine
from tandem.views.sql.spark_names import in_spark
from tandem.views.sql.syntax import Node, nodes, parse

SESSION_WORDS: Final = frozenset(
    (
        "current_catalog",
        "current_connection_id",
        "current_database",
        "current_date",
        "current_localtime",
        "current_localtimestamp",
        "current_query",
        "current_query_id",
        "current_role",
        "current_schema",
        "current_schemas",
        "current_setting",
        "current_time",
        "current_timestamp",
        "current_transaction_id",
        "current_user",
        "get_current_time",
        "get_current_timestamp",
        "getenv",
        "getvariable",
        "in_search_path",
        "localtime",
        "localtimestamp",
        "now",
        "session_user",
        "today",
        "transaction_timestamp",
        "txid_current",
        "user",
        "version",
    )
)
"""Functions that read the clock, the session or the machine; SQL allows some without brackets, like columns."""

_ENGINE_ONLY: Final = ("__internal", "json_execute", "json_serialize_plan", "parse_duckdb", "pg_")
_LIST_AGGREGATES: Final = frozenset({"aggregate", "array_aggr", "array_aggregate", "list_aggr", "list_aggregate"})
_RANDOM_AGGREGATES: Final = frozenset({"reservoir_quantile"})


@dataclass
class _Function:
    """The entry of one name in DuckDB's catalogue, over all its overloads."""

    kinds: set[str] = field(default_factory=set)
    stabilities: set[str] = field(default_factory=set)
    macros: set[str] = field(default_factory=set)


def why_refused(name: str, arguments: Sequence[Node]) -> str | None:
    """Why an expression may not call this function with these arguments, as the end of a sentence; None if it may."""
    name = name.casefold()
    if name in SESSION_WORDS or (name == "age" and len(arguments) == 1):
        return f"{name} reads the clock or the session, but an event must mean the same at any time"
    if name == "unnest":
        return "unnest makes several rows of one event, and an expression has one value"
    function = _catalogue().get(name)
    if function is None and (why := in_spark(name)) is not None:
        return why
    if function is None:
        return f"there is no function {name}; the nearest are {', '.join(nearest_first(name, _catalogue())[:3])}"
    if not function.kinds & {"scalar", "macro"}:
        return _why_not_scalar(name, function)
    if "VOLATILE" in function.stabilities:
        return f"{name} returns another value at every call, but an event must mean the same at any time"
    if "CONSISTENT_WITHIN_QUERY" in function.stabilities or name.startswith(_ENGINE_ONLY):
        return f"{name} reads the engine, not the event"
    if name in _LIST_AGGREGATES and not _names_its_aggregate(arguments):
        return f"{name} takes the name of a deterministic aggregate, written as a text"
    return next((why for macro in sorted(function.macros) if (why := _why_macro_refused(name, macro))), None)


def _why_not_scalar(name: str, function: _Function) -> str:
    if "aggregate" in function.kinds:
        return f"{name} is an aggregate: an expression reads one event, measures aggregate events"
    if "window" in function.kinds:
        return f"{name} is a window function: an expression reads one event"
    return f"{name} reads tables or files: an expression reads only its event"


def _names_its_aggregate(arguments: Sequence[Node]) -> bool:
    if len(arguments) < 2 or arguments[1]["class"] != "CONSTANT":
        return False
    return str(arguments[1]["literal"].get("text", "")).casefold() not in _RANDOM_AGGREGATES


def _why_macro_refused(name: str, definition: str) -> str | None:
    """A macro is judged by its definition: `ago(x)` by `current_timestamp - x`."""
    try:
        tree = parse(definition)
    except DefinitionError:
        return f"{name} is not a scalar expression"
    for node in nodes(tree):
        if node["class"] in ("SUBQUERY", "WINDOW"):
            return f"{name} reads tables: an expression reads only its event"
        if node["class"] == "COLUMN_REF" and node["column_names"][0].casefold() in SESSION_WORDS:
            return why_refused(node["column_names"][0], ())
        if node["class"] == "FUNCTION":
            why = why_refused(node["function_name"], [argument["expression"] for argument in node["arguments"]])
            if why is not None:
                return why
    return None


@cache
def _catalogue() -> dict[str, _Function]:
    """All functions that this DuckDB has, by name."""
    functions: dict[str, _Function] = defaultdict(_Function)
    rows = engine.connection().execute(
        "SELECT DISTINCT function_name, function_type, stability, macro_definition FROM duckdb_functions() "
        "WHERE schema_name = 'main'"
    )
    for name, kind, stability, macro in rows.fetchall():
        function = functions[name]
        function.kinds.add(kind)
        if stability is not None:
            function.stabilities.add(stability)
        if kind == "macro":
            function.macros.add(macro)
    return dict(functions)
