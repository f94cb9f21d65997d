"""Turns texts into values of fields, for formats without types.

| field         | text                                                     |
| ------------- | -------------------------------------------------------- |
| bool          | true, false, 1, 0, in any case                           |
| int           | a JSON integer: no sign but -, no leading zeros          |
| float         | a JSON number                                            |
| Decimal       | what Python's Decimal reads                              |
| str           | the text, empty or not                                   |
| bytes         | base64                                                   |
| date          | 2026-11-01                                               |
| datetime      | RFC 3339 with a zone                                     |
| UUID          | as Python's UUID prints it, with or without hyphens      |
| Enum, Literal | one of the values, written as their type is              |

A byte that is not UTF-8 rejects a value only in a text that a field takes.

Lists and structs have no text. A text that the format treats as empty is null in an Optional field; elsewhere only a str takes
it.
"""

import re
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.named_fields import named_fields
from tandem.views.source.fields.reasons import Reject, misfit
from tandem.views.source.fields.times import cut

Read = Callable[[str], Any]

_INT = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_DETAIL_CHARACTERS = 40


def with_damage(value: bytes) -> str:
    """The text of a value that is not UTF-8: characters that check_text refuses stand for the bytes that are not."""
    return value.decode(errors="surrogateescape")


def check_text(name: str, text: str | None) -> None:
    """Refuse the text of a field that holds bytes that are not UTF-8; `text` is a part of what with_damage returns."""
    try:
        (text or "").encode(errors="surrogateescape").decode()
    except UnicodeDecodeError as error:
        raise Reject("utf8", f"field {name}: byte {error.start} is not UTF-8: {error.reason}") from error


def text_fields(event: type[Event], what: str) -> tuple[Field, ...]:
    """The fields of an event type that `what` fills by name with texts; raises DefinitionError if it cannot."""
    fields = named_fields(event, what)
    for field in fields:
        if field.items is not None or field.fields:
            raise DefinitionError(f"{event.__name__}.{field.name}: {what} has texts, which are not lists or structs")
    return fields


def reader(field: Field, read: Read | None = None, *, empty: tuple[str, ...] = ("",)) -> Read:
    """The function from a text to the field's value, by the table above or by `read`; it raises Reject.

    `empty` are the texts that the format treats as empty.
    """
    by_type = read or _by_type(field)
    if field.type is str and not field.optional:
        return by_type

    def value(text: str) -> Any:
        if text not in empty:
            return by_type(text)
        if not field.optional:
            raise Reject("missing_field", f"field {field.key} is empty")
        return None

    return value


def _by_type(field: Field) -> Read:
    if field.type is str:
        return str
    if field.type is datetime:
        return _time(field)
    # Without `strict`, msgspec reads numbers in texts. Types that JSON writes as strings do not need it.
    lax = partial(msgspec.convert, type=field.type, strict=False)
    numbers = {pa.int64(): _INT, pa.float64(): _FLOAT}.get(field.arrow)
    convert = lax if numbers or field.arrow == pa.bool_() else partial(msgspec.convert, type=field.type)

    def value(text: str) -> Any:
        try:
            if numbers is None or numbers.fullmatch(text):
                return convert(text)
        except msgspec.ValidationError as error:
            raise Reject(misfit(error).reason, f"field {field.key}: {error}: {_start(text)}") from error
        raise Reject("invalid_value", f"field {field.key}: not a number: {_start(text)}")

    return value


def _time(field: Field) -> Read:
    def value(text: str) -> Any:
        try:
            return msgspec.convert(cut(text), datetime)
        except msgspec.ValidationError as error:
            raise Reject(misfit(error).reason, f"field {field.key}: {error}: {_start(text)}") from error

    return value


def _start(text: str) -> str:
    return repr(text[:_DETAIL_CHARACTERS])
