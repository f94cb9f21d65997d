"""Which operations of an expression have another meaning in Spark or PostgreSQL, as hints; docs/expressions.md has them all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tandem.views.sql.dialect_difference import ERROR, NONE, POSTGRES, SPARK, DialectDifference
from tandem.views.sql.dialects import DIFFERENCES
from tandem.views.sql.syntax import Node, nodes, parse

_INTEGERS: Final = frozenset(
    (
        *("tinyint", "smallint", "integer", "int", "bigint", "hugeint", "short", "long", "signed"),
        *("int1", "int2", "int4", "int8", "int16", "int32", "int64", "int128"),
        *("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint", "uint8", "uint16", "uint32", "uint64"),
    )
)
_TEXTS: Final = frozenset({"bpchar", "char", "nvarchar", "string", "text", "varchar"})
_BOOLEANS: Final = frozenset({"bool", "boolean", "logical"})
_CASTS: Final = {
    **dict.fromkeys(_INTEGERS, "CAST AS INTEGER"),
    **dict.fromkeys(_TEXTS, "CAST AS VARCHAR"),
    **dict.fromkeys(_BOOLEANS, "CAST AS BOOLEAN"),
}
_OPERATORS: Final = {"**": "^", "~~": "LIKE", "!~~": "LIKE", "~~*": "LIKE", "!~~*": "LIKE"}
_PARTS: Final = frozenset({"dayofweek", "dow", "sec", "second", "seconds", "s", "weekday"})
"""The parts of a date that date_part numbers or cuts as no other engine does."""


@dataclass(frozen=True)
class DialectHint:
    """An operation of `places`, and what the same text means in Spark and PostgreSQL."""

    operation: str
    hint: str
    places: tuple[str, ...]


def hint(operation: str) -> str | None:
    """One sentence on an operation that `operations` names; None if its meaning does not differ."""
    difference = _BY_NAME.get(operation)
    if difference is None:
        return None
    examples = difference.examples
    example = next(each for each in examples if _other(each.here, each.spark) or _other(each.here, each.postgres))
    others = ((f"Spark {SPARK}", example.spark), (f"PostgreSQL {POSTGRES.split('.')[0]}", example.postgres))
    results = [f"{_phrase(value)} in {engine}" for engine, value in others if value != NONE]
    return f"`{example.sql}` is {_phrase(example.here)} here, {' and '.join(results)}: {difference.meaning}"


def operations(text: str) -> Iterator[str]:
    """The names of the functions, operators and casts of an expression, as the table of differences has them."""
    for node in nodes(parse(text)):
        if node["class"] == "CAST" and node["child"]["class"] != "CONSTANT":
            yield _CASTS.get(node["type_expr"]["type_name"].casefold(), "CAST")
        elif node["type"] == "ARRAY_EXTRACT":
            if not _is_text(node["children"][1]):  # the value of a map's key is the same everywhere
                yield "[]"
        elif node["class"] == "FUNCTION" and (name := _function(node)) is not None:
            yield name


def _function(node: Node) -> str | None:
    """The name of a function; None for a call that means the same everywhere."""
    name = str(node["function_name"]).casefold()
    arguments = [argument["expression"] for argument in node["arguments"]]
    name = _OPERATORS.get(name, name)
    if name == "LIKE" and not _may_contain(arguments[1], "\\"):
        return None
    if name in ("date_part", "datepart") and arguments[0]["class"] == "CONSTANT":
        return name if str(arguments[0]["literal"].get("text", "")).casefold() in _PARTS else None
    return name


def _is_text(node: Node) -> bool:
    return bool(node["class"] == "CONSTANT" and node["literal"].get("kind") == "STRING")


def _may_contain(node: Node, text: str) -> bool:
    return node["class"] != "CONSTANT" or text in str(node["literal"].get("text", ""))


def _other(here: str, there: str) -> bool:
    """Whether another engine that has the operation computes another value, however it writes the same value."""
    return there != NONE and _value(there) != _value(here)


def _value(text: str) -> str:
    for theirs, ours in (("Infinity", "inf"), ("NaN", "nan"), ("null", "NULL"), ("{", "["), ("}", "]"), (", ", ","), ("+00", "")):
        text = text.replace(theirs, ours)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _phrase(value: str) -> str:
    return {ERROR: "an error", "": "the empty text"}.get(value, value)


_BY_NAME: Final[dict[str, DialectDifference]] = {name: difference for difference in DIFFERENCES for name in difference.names}
