"""The texts with which `--prove` searches for records that a condition selected.

A search is a proof only if every selected value has the searched bytes. That holds for a text that a condition compares with a
field of text by `=` or IN, and for the longest fixed part of a LIKE pattern. Other texts prove nothing and are named instead.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tandem.views.sql import syntax
from tandem.views.sql.syntax import Node

_EQUALITY: Final = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")
_WILDCARDS: Final = re.compile("[%_]+")


@dataclass(frozen=True)
class SearchedTexts:
    """The texts that are searched, and the texts of the condition whose search would prove nothing."""

    searched: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()


def texts_of(condition: str, fields: pa.Schema) -> SearchedTexts:
    """The texts of a condition over these fields; not the empty text, which every file has."""
    tree = syntax.parse(condition)
    pairs = [pair for leaf in _parts(tree) for pair in _pairs(leaf, fields)]
    whole = {text for text, _ in pairs}
    others = [text for text in _constants(tree) if text not in whole]
    others += [text for text, part in pairs if text and not part]
    return SearchedTexts(_distinct(part for _, part in pairs), _distinct(others))


def _parts(tree: Node) -> Iterator[Node]:
    """The parts that AND and OR join."""
    if tree["class"] != "CONJUNCTION":
        yield tree
        return
    for child in tree["children"]:
        yield from _parts(child)


def _pairs(leaf: Node, fields: pa.Schema) -> list[tuple[str, str]]:
    """The texts that a part compares with a field of text, each with what to search for it; "" if nothing can be searched."""
    match leaf:
        case {"class": "COMPARISON", "type": kind, "left": left, "right": right} if kind in _EQUALITY:
            return _equal(left, [right], fields) or _equal(right, [left], fields)
        case {"class": "OPERATOR", "type": "COMPARE_IN", "children": [first, *values]}:
            return _equal(first, values, fields)
        case {"class": "FUNCTION", "function_name": "~~", "arguments": [{"expression": first}, {"expression": pattern}]}:
            return [(text, max(_WILDCARDS.split(text), key=len)) for text, _ in _equal(first, [pattern], fields)]
    return []


def _equal(column: Node, values: Sequence[Node], fields: pa.Schema) -> list[tuple[str, str]]:
    if column["class"] != "COLUMN_REF" or not _is_text(column["column_names"], fields):
        return []
    return [(text, text) for value in values if value["class"] == "CONSTANT" for text in _constants(value)]


def _is_text(path: Sequence[str], fields: pa.Schema) -> bool:
    """Whether the field at this path is of text; SQL's names have no case."""
    inside: Any = fields
    for name in path:
        kinds = [field.type for field in inside if field.name.lower() == name.lower()]
        if not kinds:
            return False
        inside = kinds[0]
        if not pa.types.is_struct(inside):
            break
    return bool(pa.types.is_string(inside) or pa.types.is_large_string(inside))


def _constants(tree: Any) -> Iterator[str]:
    for node in syntax.nodes(tree):
        if node["class"] == "CONSTANT" and node["literal"]["kind"] == "STRING":
            yield node["literal"]["text"]


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))
