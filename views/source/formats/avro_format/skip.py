"""Skips what an Avro value holds, by its physical types: the end of an item, without its value.

So an array is divided into its items, and those that cannot be read are set apart.

It keeps its place on a list, so a value may be nested to any depth: fastavro 1.13.1 ends the process for a value of a recursive
schema that is nested some thousand deep. Items of zero bytes are skipped at once, however many there are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem.views.source.fields.reasons import Reject
from tandem.views.source.format import as_text

_NUMBER_BITS: Final = 70
"""Those of ten bytes: no number of 64 bits has an eleventh."""
ENDS_EARLY: Final = "not a value of its schema: it ends within an item"
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


@dataclass
class _Items:
    """Items of an array or map that are left to skip in the block at hand."""

    schema: Any
    keys: bool
    left: int = 0


def resolved(schema: Any, names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition of a name in a parsed schema; for a primitive type, a definition with its name."""
    if isinstance(schema, str):
        schema = names.get(schema, {"type": schema})
    found: Mapping[str, Any] = schema
    return found


def after(schema: Any, names: Mapping[str, Any], value: bytes, at: int) -> int:
    """The end of the item that begins at this byte. Raises Reject for a number of more than 64 bits, or if bytes are missing."""
    left = [schema]
    while left:
        item = left.pop()
        if isinstance(item, _Items):
            at = _next_item(item, names, value, at, left)
            continue
        if isinstance(item, list):
            branch, at = number(value, at)
            left.append(branch_of(item, branch))
            continue
        item = resolved(item, names)
        kind = item["type"]
        if kind in _SIZES:
            at += _SIZES[kind]
        elif kind == "fixed":
            at += int(item["size"])
        elif kind == "record":
            left.extend(field["type"] for field in reversed(item["fields"]))
        elif kind in ("array", "map"):
            left.append(_Items(item["items" if kind == "array" else "values"], keys=kind == "map"))
            at = _begin_block(left[-1], value, at, left)
        else:
            length, at = number(value, at)
            at += _size(length) if kind in ("bytes", "string") else 0
        if at > len(value):
            raise Reject("format", ENDS_EARLY)
    return at


def branch_of(union: list[Any], branch: int) -> Any:
    """The schema of a union with this number."""
    if not 0 <= branch < len(union):
        raise Reject("format", f"not a value of its schema: a union has no branch {branch}")
    return union[branch]


def block(value: bytes, at: int) -> tuple[int, int]:
    """The number of items of the block that begins at this byte, and where the first of them begins."""
    count, at = number(value, at)
    if count < 0:
        _, at = number(value, at)
    return abs(count), at


def number(value: bytes, at: int) -> tuple[int, int]:
    """The number that begins at this byte, and its end."""
    bits = shift = 0
    try:
        while (byte := value[at]) >= 0x80:
            bits |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift == _NUMBER_BITS:
                break
    except IndexError:
        raise Reject("format", "not a value of its schema: it ends within a number") from None
    if shift > 56 and byte << shift >= 2**64:
        raise Reject("out_of_range", "a number does not fit 64 bits")
    bits |= byte << shift
    return (bits >> 1) ^ -(bits & 1), at + 1


@dataclass(frozen=True)
class BrokenItem:
    """The bytes of an item that cannot be read, and its Reject."""

    value: bytes
    reject: Reject


def each_item(value: bytes, item: Any, names: Mapping[str, Any], read: Callable[[bytes], Any]) -> list[Any]:
    """What `read` returns for each item of an array, and a BrokenItem where it raises Reject.

    Items are of the schema `item`, at least a byte each. Raises Reject for a value that is no such array, physically.
    """
    items: list[Any] = []
    left, at = block(value, 0)
    while left:
        for _ in range(left):
            end = after(item, names, value, at)
            try:
                items.append(read(value[at:end]))
            except Reject as reject:
                items.append(BrokenItem(value[at:end], reject))
            at = end
        left, at = block(value, at)
    if at < len(value):
        raise Reject("format", f"{len(value) - at} bytes after the value")
    return items


def build_item(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`build` for the items of `each_item`; raises the Reject of a broken one."""

    def parse(part: Any) -> Any:
        if isinstance(part, BrokenItem):
            raise part.reject
        return build(part)

    return parse


def item_text(part: Any) -> bytes:
    """An item for the quarantine: its values, or its bytes where it is broken."""
    return part.value if isinstance(part, BrokenItem) else as_text(part)


def takes_no_bytes(schema: Any, names: Mapping[str, Any]) -> bool:
    """Whether no value of the schema has a byte."""
    left, visited = [schema], set[str]()
    while left:
        item = left.pop()
        if isinstance(item, list):
            return False
        item = resolved(item, names)
        if item["type"] != "record":
            if item["type"] != "null" and not (item["type"] == "fixed" and item["size"] == 0):
                return False
        elif item["name"] not in visited:  # a schema of n records may have 2**n paths
            visited.add(item["name"])
            left.extend(field["type"] for field in item["fields"])
    return True


def _begin_block(items: _Items, value: bytes, at: int, left: list[Any]) -> int:
    items.left, at = block(value, at)
    if not items.left:
        left.pop()
    return at


def _next_item(items: _Items, names: Mapping[str, Any], value: bytes, at: int, left: list[Any]) -> int:
    if not items.left or (not items.keys and takes_no_bytes(items.schema, names)):
        left.append(items)
        return _begin_block(items, value, at, left)
    items.left -= 1
    left.append(items)
    if items.keys:
        length, at = number(value, at)
        at += _size(length)
    left.append(items.schema)
    return at


def _size(length: int) -> int:
    if length < 0:
        raise Reject("format", f"not a value of its schema: a text of {length} bytes")
    return length
