"""CSV (RFC 4180): one value is one row of the declared columns, without a header.

A field takes the column that has its name (its JSON key, where that differs); other columns may hold what they like. Texts
become values as views.decode.texts has it: an empty one is null in an Optional field. A value is refused unless it is UTF-8 and
exactly one row with exactly the declared columns. A quoted text may hold delimiters, line ends and, doubled, quotes; a quote
inside a text that is not quoted is a quote. A line end at the end belongs to no column. Python's csv module reads the rows,
and refuses texts of more than 131,072 characters.
"""

import csv as rows
import io
import re
from dataclasses import dataclass
from typing import Any

from views.decode.by_name import built
from views.decode.reasons import Reject
from views.decode.texts import reader, text_fields
from views.decoder import Parse
from views.errors import DefinitionError, listed
from views.event import Event

_DELIMITER = re.compile(r'[^\w\s"\ufeff]|\t| ', re.ASCII)


@dataclass(frozen=True)
class Csv:
    """A decoder of rows; raises DefinitionError if a column has no name or another's, or the delimiter is no delimiter."""

    columns: tuple[str, ...]
    delimiter: str = ","

    def __post_init__(self) -> None:
        """Check both."""
        named = isinstance(self.columns, tuple) and all(isinstance(column, str) and column for column in self.columns)
        if not named or not self.columns or len(set(self.columns)) < len(self.columns):
            raise DefinitionError(f"csv: columns {self.columns!r} are not a tuple of names, each once, such as ('id', 'at')")
        if not isinstance(self.delimiter, str) or not _DELIMITER.fullmatch(self.delimiter):
            raise DefinitionError(f"csv: delimiter {self.delimiter!r} is not one character such as ',' ';' '|' or a tab")

    def parser(self, event: type[Event]) -> Parse:
        """A function from one row to one event; raises DefinitionError if the event type needs a column that is not declared."""
        fields = text_fields(event, "a CSV row")
        for field in fields:
            if field.required and field.key not in self.columns:
                have = listed(field.key, self.columns)
                raise DefinitionError(f"{event.__name__}.{field.name}: there is no column {field.key!r}; columns: {have}")
        wanted = [(f.key, self.columns.index(f.key), reader(f)) for f in fields if f.key in self.columns]

        def parse(value: bytes) -> Any:
            row = self._row(value)
            return built(event, {key: read(row[index]) for key, index, read in wanted})

        return parse

    def _row(self, value: bytes) -> list[str]:
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            raise Reject("utf8", f"byte {error.start} is not UTF-8: {error.reason}") from error
        try:
            found = list(rows.reader(io.StringIO(text, newline=""), delimiter=self.delimiter, strict=True))
        except rows.Error as error:
            raise Reject("format", f"not a CSV row: {error}") from error
        if len(found) != 1:
            raise Reject("format", f"{len(found)} rows in one value")
        if len(found[0]) != len(self.columns):
            raise Reject("format", f"{len(found[0])} columns, not {len(self.columns)}")
        return found[0]


def csv(*, columns: tuple[str, ...], delimiter: str = ",") -> Csv:
    """A decoder of CSV: one value is one row, without a header, of these columns in this order."""
    return Csv(columns, delimiter)
