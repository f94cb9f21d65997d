r"""Rows without quotes, and with backslash escapes: the text format of PostgreSQL's COPY, MySQL's INTO OUTFILE and Hadoop.

* A backslash stands before what would end a text, or before the letter of a control character: `\b \f \n \r \t \v \0`.
* A backslash before a sign, a tab or a line end means that character. So MySQL writes a line feed in a text.
* Another escape, of a letter or a digit, rejects a row in a text that a field takes: these programs write none.
* `\N` alone is a null.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tandem.views.source.event import Field
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.text_values import NumberMarks, reader

_ESCAPE: Final = re.compile(r"\\(.?)", re.DOTALL)
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LETTERS: Final = {"\t": r"\t", "\n": r"\n"}


def rows_without_quotes(text: str, delimiter: str, escape: str | None) -> list[list[str]]:
    """The rows of a text, with their escapes. Raises Reject for a backslash at the end, after which the row would go on."""
    if not text:
        return []
    if escape and escape in text:
        text = _ESCAPE.sub(_in_letters, text)
    lines = (line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
    return [line.split(delimiter) if line else [] for line in lines]


def reader_of_escapes(field: Field, *, empty: tuple[str, ...], numbers: NumberMarks) -> Callable[[str], Any]:
    """`reader` for texts with escapes. A null is missing in a required str, too: read as an escape, it would be another text."""
    read = reader(replace(field, optional=False), empty=(), numbers=numbers)

    def value(text: str) -> Any:
        if text in empty and (text or field.optional or field.type is not str):
            if field.optional:
                return None
            raise Reject("missing_field", f"field {field.key} is null")
        return read(_ESCAPE.sub(partial(_character, field.key), text) if "\\" in text else text)

    return value


def escape_is_open(line: bytes) -> bool:
    """Whether this line of a file ends in a backslash that is not itself escaped, so that its row goes on in the next line."""
    text = line.removesuffix(b"\n")
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def _in_letters(match: re.Match[str]) -> str:
    if not match[1]:
        raise Reject("format", "the last row ends in a backslash")
    return _LETTERS.get(match[1], match[0])


def _character(key: str, match: re.Match[str]) -> str:
    character = match[1]
    if character not in _CONTROLS and character.isalnum():
        raise Reject("format", f"field {key}: invalid escape {match[0]!r}")
    return _CONTROLS.get(character, character)
