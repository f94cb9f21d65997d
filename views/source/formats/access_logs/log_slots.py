"""The layout of lines by a server's own format: the pattern of each text follows from the literal texts around it."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tandem.views.errors import DefinitionError
from tandem.views.source.formats.access_logs.log_lines import REQUEST, LineLayout, Slot

QUOTED: Final = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
"""What stands between two quotes that are not escaped."""
UNESCAPED: Final = r'[^"]*+'
"""The same, where the server escapes nothing."""
LIST_SEPARATOR: Final = re.compile(r",\s*| : ")
TEXT: Final = "*"
"""The pattern of a text that may be empty, of any form until lines_of decides."""
WORD: Final = "+"
"""The same of a text that is never empty."""
LIST: Final = ", "
"""The same of values with separators."""
DIGITS: Final = r"\d++"
PORT: Final = r"\d*+"
"""Digits, or none."""
_FIRST: Final = {"query": "?", "is_args": "?", "request_uri": "/", "uri": "/", "document_uri": "/"}
"""The first character of values that may follow another without anything between."""


def lines_of(
    what: str, tokens: Iterable[str | Slot], *, request: tuple[str, ...] = (), tail: int | None = None, escapes: bool = True
) -> LineLayout:
    """The layout of lines with these literal texts and slots, whose patterns TEXT, WORD and LIST their neighbours decide.

    With `escapes` a backslash before a quote escapes it.

    Raises DefinitionError if there is no slot, or nothing shows where a value ends.
    """
    parts = _join(tokens)
    if not any(isinstance(part, Slot) for part in parts):
        raise DefinitionError(f"{what} has no values")
    quotes = 0
    layout: list[str | Slot] = []
    for before, part, after, following in zip(["", *parts], parts, [*parts[1:], ""], [*parts[2:], "", ""], strict=False):
        if isinstance(part, str):
            quotes += part.count('"')
            layout.append(part)
            continue
        opening = before if isinstance(before, str) else ""
        closing = after if isinstance(after, str) else _FIRST.get(after.name, "")
        if isinstance(after, Slot) and not closing and part.pattern in (TEXT, WORD, LIST):
            raise DefinitionError(f"{what}: nothing between {part.name} and {after.name} shows where the first one ends")
        if part.name == REQUEST and not (opening.endswith('"') and closing.startswith('"')):
            raise DefinitionError(f"{what}: the request has spaces, so that nothing shows where it ends; put it in quotes")
        digits = isinstance(following, Slot) and following.pattern in (DIGITS, PORT)
        pattern = _pattern(part.pattern, opening, closing, inside=quotes % 2 == 1, digits=digits)
        layout.append(replace(part, pattern=UNESCAPED if pattern == QUOTED and not escapes else pattern))
    return LineLayout(what, tuple(layout), request, tail)


def _join(tokens: Iterable[str | Slot]) -> list[str | Slot]:
    parts: list[str | Slot] = []
    for token in tokens:
        if isinstance(token, str) and parts and isinstance(parts[-1], str):
            parts[-1] += token
        elif token:
            parts.append(token)
    return parts


def _pattern(kind: str, before: str, after: str, *, inside: bool, digits: bool) -> str:
    """The regular expression, without groups, of a slot between these literals.

    * In quotes or brackets of its own a text is what they enclose.
    * Otherwise it ends where the next literal begins, and has no spaces; after the last literal it is the rest of the line.
    * `inside`: quotes are open, and enclose other values, too. `digits`: the next slot has digits, so that the literal between
      them may occur in the text, as in an address of IPv6 before a port.
    """
    if kind not in (TEXT, WORD, LIST):
        return kind
    if before.endswith('"') and after.startswith('"'):
        return QUOTED
    if before.endswith("[") and after.startswith("]"):
        return r"[^\]]*+"
    quote, stop = '"' if inside else "", after[:1]
    if kind == LIST:
        value = rf"[^\s,{quote}{re.escape(stop.strip())}]"
        return rf"{value}*+(?:(?:, | : ){value}++)*+"
    if not after:
        return rf"[^\r\n]{kind}+"
    if stop == "\t":
        return rf"[^\t{quote}]{kind}+"
    if stop == " ":
        return rf"[^\s{quote}]{kind}+"
    return rf"[^\s{quote}]{kind}" if digits else rf"[^\s{quote}{re.escape(stop)}]{kind}+"
