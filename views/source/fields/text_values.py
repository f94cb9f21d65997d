"""Turns texts into values of fields, for formats without types.

| field         | text                                                     |
| ------------- | -------------------------------------------------------- |
| bool          | true, false, 1, 0, in any case                           |
| int           | a number without a fraction: 5, +05, 5.0, 5e3            |
| float         | a number, as fields.numbers has it                       |
| Decimal       | a number, all its digits                                 |
| str           | the text, empty or not                                   |
| bytes         | base64                                                   |
| date          | 2026-11-01                                               |
| datetime      | ISO 8601 with a zone, or as time_notation says           |
| UUID          | as Python's UUID prints it, with or without hyphens      |
| Enum, Literal | one of the values, written as their type is              |

A byte that is not UTF-8 rejects a value only in a text that a field takes.

Lists, maps and structs have no text. A text that the format treats as empty is null in an Optional field; elsewhere only a str
takes it.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.named_fields import named_fields
from tandem.views.source.fields.numbers import decimal_of_text, float_of_text, integer_of_text
from tandem.views.source.fields.reasons import Reject, misfit
from tandem.views.source.fields.time_reader import is_time, time_reader

Read = Callable[[str], Any]

_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_NUMBERS: dict[Any, Read] = {
    pa.int64(): integer_of_text,
    pa.float64(): float_of_text,
    pa.bool_(): lambda text: msgspec.convert(_TRUTH.get(text.lower(), text), bool),
    Decimal: decimal_of_text,
}
_SWAPPED = str.maketrans(",.", ".,")
"""A number with a decimal comma has a point after this, and a point has become what no number has."""
THOUSANDS: Final = (",", ".", "'", " ", "\u00a0", "\u202f", "\u2019")
"""What may stand between groups of three digits: also spaces that do not break, and a typographic apostrophe."""
_DETAIL_CHARACTERS = 40


@dataclass(frozen=True)
class NumberMarks:
    """What numbers have before their fraction, and between groups of three digits before it; empty if nothing."""

    decimal: str = "."
    thousands: str = ""

    def reader(self, number: Read) -> Read:
        """The function from a text with these marks to what `number` reads without them. It raises Reject."""
        if not self.thousands:
            return number if self.decimal == "." else lambda text: number(text.translate(_SWAPPED))
        mark, point = re.escape(self.thousands), re.escape(self.decimal)
        grouped = re.compile(rf"\s*[+-]?[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+(?:{point}[0-9]*)?\s*", re.ASCII)

        def value(text: str) -> Any:
            if self.thousands in text.strip():
                if not grouped.fullmatch(text):
                    raise Reject("invalid_value", f"{self.thousands!r} is not between groups of three digits")
                text = text.replace(self.thousands, "")
            return number(text.translate(_SWAPPED) if self.decimal == "," else text)

        return value


PLAIN: Final = NumberMarks()


def with_damage(value: bytes) -> str:
    """The text of a value that is not UTF-8: characters that check_text refuses stand for the bytes that are not."""
    return value.decode(errors="surrogateescape")


def without_mark(value: bytes) -> bytes:
    """The value without the byte order mark at its start, which programs of Windows write in texts of UTF-8."""
    return value[len(BOM_UTF8) :] if value.startswith(BOM_UTF8) and not value.startswith(BOM_UTF8, len(BOM_UTF8)) else value


def check_text(name: str, text: str | None) -> None:
    """Refuse the text of a field that holds bytes that are not UTF-8; `text` is a part of what with_damage returns."""
    try:
        (text or "").encode(errors="surrogateescape").decode()
    except UnicodeDecodeError as error:
        raise Reject("utf8", f"field {name}: byte {error.start} is not UTF-8: {error.reason}") from error


def text_fields(event: type[Event], what: str, *, lists: bool = False) -> tuple[Field, ...]:
    """The fields of an event type that `what` fills by name with texts; raises DefinitionError if it cannot.

    `lists`: a text may hold the values of a list, which are neither lists, maps nor structs.
    """
    fields = named_fields(event, what)
    for field in fields:
        plain = lists and field.items is not None and field.type is not dict and not (field.items.items or field.items.fields)
        if (field.items is not None and not plain) or field.fields:
            raise DefinitionError(f"{event.__name__}.{field.name}: {what} has texts, which are not lists, maps or structs")
    return fields


def reader(field: Field, read: Read | None = None, *, empty: tuple[str, ...] = ("",), numbers: NumberMarks = PLAIN) -> Read:
    """The function from a text to the field's value, by the table above or by `read`; it raises Reject.

    `empty` are the texts that the format treats as empty.
    """
    by_type = read or _by_type(field, numbers)
    if field.type is str and not field.optional:
        return by_type

    def value(text: str) -> Any:
        if text not in empty:
            return by_type(text)
        if not field.optional:
            raise Reject("missing_field", f"field {field.key} is empty")
        return None

    return value


def list_reader(field: Field, split: Callable[[str], list[str]], empty: tuple[str, ...]) -> Read:
    """The function from a text to the values of a list field, which `split` separates; it raises Reject."""
    assert field.items is not None
    read = reader(replace(field.items, key=field.key), empty=empty)

    def values(text: str) -> Any:
        if field.optional and text in empty:
            return None
        return [read(part) for part in split(text)]

    return values


def _by_type(field: Field, marks: NumberMarks) -> Read:
    if field.type is str:
        return str
    if is_time(field):
        return time_reader(field)
    number = _NUMBERS.get(Decimal if field.type is Decimal else field.arrow)
    read = partial(msgspec.convert, type=field.type) if number is None else number
    if number is not None and field.arrow != pa.bool_():
        read = marks.reader(number)

    def value(text: str) -> Any:
        try:
            return read(text)
        except msgspec.ValidationError as error:
            raise Reject(misfit(error).reason, f"field {field.key}: {error}: {_start(text)}") from error
        except Reject as reject:
            raise Reject(reject.reason, f"field {field.key}: {reject.detail}: {_start(text)}") from reject

    return value


def _start(text: str) -> str:
    return repr(text[:_DETAIL_CHARACTERS])
