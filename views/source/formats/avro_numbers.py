"""Checks that every number in an Avro value fits 64 bits; fastavro drops the high bits of a longer one."""

import re
from collections.abc import Mapping
from typing import Any, Final

from tandem.views.source.formats.avro_schema import resolved

_LONG: Final = re.compile(rb"[\x80-\xff]{9}[\x02-\xff]")
"""Bytes that occur in every number of more than 64 bits; texts of other alphabets contain them too."""
_NUMBER_BYTES: Final = 10
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class _TooLong(Exception):
    """A number does not fit."""


def numbers_fit(schema: Any, names: Mapping[str, Any], value: bytes) -> bool:
    """Whether every number fits, in a value that fastavro has read."""
    if _LONG.search(value) is None:
        return True
    try:
        _after(schema, names, value, 0)
    except _TooLong:
        return False
    return True


def _after(schema: Any, names: Mapping[str, Any], value: bytes, at: int) -> int:
    """The end of the item that begins at this byte."""
    if isinstance(schema, list):
        branch, at = _number(value, at)
        return _after(schema[branch], names, value, at)
    schema = resolved(schema, names)
    kind = schema["type"]
    if kind in _SIZES:
        return at + _SIZES[kind]
    if kind == "fixed":
        return at + int(schema["size"])
    if kind == "record":
        for field in schema["fields"]:
            at = _after(field["type"], names, value, at)
        return at
    if kind in ("array", "map"):
        return _after_blocks(schema, names, value, at)
    number, at = _number(value, at)
    return at + number if kind in ("bytes", "string") else at


def _after_blocks(schema: Mapping[str, Any], names: Mapping[str, Any], value: bytes, at: int) -> int:
    count, at = _number(value, at)
    while count:
        if count < 0:
            _, at = _number(value, at)
        for _ in range(abs(count)):
            if schema["type"] == "map":
                at = _after("string", names, value, at)
            at = _after(schema["items" if schema["type"] == "array" else "values"], names, value, at)
        count, at = _number(value, at)
    return at


def _number(value: bytes, at: int) -> tuple[int, int]:
    """The number that begins at this byte, and its end."""
    bits = 0
    for place in range(_NUMBER_BYTES):
        byte = value[at + place]
        bits |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if bits >= 2**64:
                break
            return (bits >> 1) ^ -(bits & 1), at + place + 1
    raise _TooLong
