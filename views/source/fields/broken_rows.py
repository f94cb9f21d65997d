"""CSV rows of which some are malformed: the others are read, each as if it were alone."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tandem.views.source.fields.reasons import Reject

_LINE_END: Final = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")


@dataclass(frozen=True)
class BrokenRow:
    """The text of a row that cannot be divided into columns, and why."""

    text: str
    detail: str

    def refuse(self, _: Any) -> dict[str, Any]:
        """Raise the Reject, in place of the values by column."""
        raise Reject("format", self.detail)


def each_row(
    text: str, rows: Callable[[str], list[list[str]]], is_open: Callable[[bytes, bool], bool]
) -> list[list[str] | BrokenRow]:
    """The rows of a text. `rows` reads some rows and raises Reject; `is_open` says whether a row goes on after a line.

    A row with a quote too many goes on to the next quote, or to the end of the text.
    """
    table: list[list[str] | BrokenRow] = []
    for row in _texts(text, is_open):
        try:
            table.extend(rows(row))
        except Reject as reject:
            table.append(BrokenRow(row.rstrip("\r\n"), reject.detail.replace("row 0", f"row {len(table)}", 1)))
    return table


def _texts(text: str, is_open: Callable[[bytes, bool], bool]) -> Iterator[str]:
    row = ""
    for line in _LINE_END.split(text):
        inside = bool(row)
        row += line
        if row and not is_open(line.encode(errors="surrogateescape"), inside):
            yield row
            row = ""
    if row:
        yield row
