"""The expressions of a view: DuckDB SQL about one event, checked against the event's fields when the view is defined.

An expression is scalar and deterministic, and reads its event alone. Its result for an event is a value, NULL or a rejection: a
view rejects an event for which one of its expressions fails, overflows, is not finite or is a time outside the calendar, and
counts it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, get_args

import duckdb
import pyarrow as pa

from tandem.views.errors import DefinitionError, listed
from tandem.views.source.value_types import ValueType, value_type
from tandem.views.sql import engine
from tandem.views.sql.allowed_functions import SESSION_WORDS, why_refused
from tandem.views.sql.syntax import Node, canonical, enclosed, lambda_parameters, nodes, parse, parse_once
from tandem.views.value_forms import not_a_text

Reason = Literal["expression", "not_finite", "out_of_range", "prepare", "unmatched"]
"""Why a view rejects an event: an expression failed or overflowed; was NaN or infinite; was a time outside years 1 to 9999; or
the source's `prepare` failed, so all views of the source reject the event, whatever their filters; or a look-up that rejects
has no row for it."""

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

_REFUSED: Final = {
    "COLLATE": "COLLATE is refused, because it lets different texts be one key; write lower(...)",
    "PARAMETER": "a parameter has no value here; write the constant",
    "POSITIONAL_REFERENCE": "fields have names here, not numbers",
    "STAR": "a star is many columns, and an expression has one value",
    "SUBQUERY": "a subquery reads tables: an expression reads only its event",
    "WINDOW": "a window function reads other events; an expression reads only its own event",
}
_ALLOWED: Final = frozenset(
    (
        "BETWEEN",
        "CASE",
        "CAST",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "LAMBDA",
        "OPERATOR",
        "TYPE",
    )
)


@dataclass(frozen=True)
class Expression:
    """A checked expression: its text, its canonical text for fingerprints, the type of its values, the fields that it reads.

    `column` is the field's name if the expression is nothing but a field.
    """

    text: str
    canonical: str
    type: ValueType
    fields: frozenset[str]
    column: str | None = None


@lru_cache(maxsize=4096)
def bind_expression(text: str, fields: pa.Schema, event: str) -> Expression:
    """Check one expression against the fields of the event type named `event`.

    Raises DefinitionError; the caller puts the expression and its place before the message.
    """
    return bind_once(text, fields, event, parse)


def bind_once(text: str, fields: pa.Schema, event: str, parse: Callable[[str], Node] = parse_once) -> Expression:
    """Check one expression as `bind_expression` does, of which this process keeps nothing. Raises as that does."""
    if not isinstance(text, str):
        raise DefinitionError(not_a_text(text))
    try:
        parsed = parse(text)
    except DefinitionError as error:
        raise DefinitionError(f"{error}{_quoting_hint(text, fields.names)}") from error
    names = {name.casefold(): name for name in fields.names}
    try:
        tree = _with_field_names(parsed, names, event)
    except DefinitionError as error:
        raise DefinitionError(f"{error}{_text_hint(text, names)}") from error
    for node in nodes(tree):
        _check(node)
    column = tree["column_names"][0] if tree["class"] == "COLUMN_REF" and len(tree["column_names"]) == 1 else None
    read = frozenset(node["column_names"][0] for node in nodes(tree) if node["class"] == "COLUMN_REF")
    return Expression(text, canonical(tree), type_of(text, fields), read & set(fields.names), column)


def _quoting_hint(text: str, names: Sequence[str]) -> str:
    """A hint about fields whose names are reserved words of SQL, a likely reason why the text does not parse."""
    reserved = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
    words = {row[0] for row in engine.connection().execute(reserved).fetchall()}
    unquoted = set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"]*"', "", text)))
    hints = [f'"{name}"' for name in names if name in unquoted and name.casefold() in words]
    return f"; these are reserved words of SQL; quote them: {', '.join(hints)}" if hints else ""


def _text_hint(text: str, fields: Mapping[str, str]) -> str:
    """A hint about a text in double quotes, which are for names in SQL."""
    names = [name for name in re.findall(r'"([^"]+)"', re.sub(r"'[^']*'", "", text)) if name.casefold() not in fields]
    return f"; a text in SQL has single quotes: '{names[0]}'" if names else ""


def _check(node: Node) -> None:
    kind = node["class"]
    if kind in _REFUSED:
        raise DefinitionError(f"is refused: {_REFUSED[kind]}")
    if kind not in _ALLOWED or node["type"] == "GROUPING_FUNCTION":
        raise DefinitionError(f"is refused: {kind.replace('_', ' ').lower()} cannot be computed from one event")
    if kind == "FUNCTION":
        if node["schema"] or node["catalog"]:
            raise DefinitionError(f"is refused: write {node['function_name']}(...) without a prefix of its name")
        why = why_refused(node["function_name"], [argument["expression"] for argument in node["arguments"]])
        if why is not None:
            raise DefinitionError(f"is refused: {why}")


def _with_field_names(tree: Any, known: Mapping[str, str], event: str, parameters: frozenset[str] = frozenset()) -> Any:
    """The tree with every field under its declared name, since SQL ignores case. Raises DefinitionError if there is none."""
    if isinstance(tree, list):
        return [_with_field_names(value, known, event, parameters) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("class") == "LAMBDA" and tree["syntax_type"] == "LAMBDA_KEYWORD":
        # A lambda's parameters are local names. `x -> 'key'` parses as a lambda, too, but reads JSON.
        return {**tree, "expr": _with_field_names(tree["expr"], known, event, parameters | lambda_parameters(tree))}
    if tree.get("class") == "COLUMN_REF" and tree["column_names"][0].casefold() not in parameters:
        first, *rest = tree["column_names"]
        return {**tree, "column_names": [_field_name(first, known, event), *rest]}
    return {key: _with_field_names(value, known, event, parameters) for key, value in tree.items()}


def _field_name(name: str, known: Mapping[str, str], event: str) -> str:
    field = known.get(name.casefold())
    if field is not None:
        return field
    if name.casefold() in SESSION_WORDS:
        raise DefinitionError(f"is refused: {why_refused(name, ())}")
    raise DefinitionError(f"names a field {name!r} that {event} does not have; fields: {listed(name, known.values())}")


def type_of(text: str, fields: pa.Schema) -> ValueType:
    """The type of the expression, as DuckDB infers it from the fields. Raises DefinitionError."""
    no_events = "_no_events"
    connection = engine.connection()
    # Not fields.empty_table(): it makes arrays from Python values, which imports pandas and takes seconds where that is
    # installed.
    try:
        connection.register(no_events, pa.Table.from_batches([], schema=fields))
        # TRY refuses what it cannot evaluate event by event, so the statement is run as the kernel runs it.
        values = connection.sql(f"SELECT TRY({enclosed(text)}) FROM {no_events}")
        values.fetchall()
        return value_type(values.types[0])
    except duckdb.Error as error:
        raise DefinitionError(f"does not fit its event: {_first_line(error)}") from error
    finally:
        connection.unregister(no_events)


def _first_line(error: duckdb.Error) -> str:
    """DuckDB's message without its list of candidates and without the statement, which is ours."""
    return " ".join(str(error).split("\n\n")[0].split("LINE ")[0].split("Candidate functions")[0].split()).strip()
