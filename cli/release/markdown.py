"""Markdown of data, for the comment of a pull request."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tandem.cli.command.text_tables import cell

_MARKS: Final = re.compile(r"[][\\`*_<>|&#~!@()]")
"""Characters that mean something in Markdown or HTML, or mention somebody in a comment."""


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The lines of a table of rows with the same columns; none without rows."""
    if rows:
        yield f"| {' | '.join(map(plain, rows[0]))} |"
        yield f"| {' | '.join('---' for _ in rows[0])} |"
        yield from (f"| {' | '.join(plain(cell(value)) for value in row.values())} |" for row in rows)


def plain(text: str) -> str:
    """Text that Markdown shows as it is: keys are data, and may contain anything."""
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", text)
