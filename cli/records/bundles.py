"""Lines of a file as values of records: one line or CSV row each, or several, by the source's format."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tandem.cli.records.lines import without_end
from tandem.views.decode.file import FileLayout, layout
from tandem.views.errors import TandemError
from tandem.views.source.source import Source

_MOST_BYTES: Final = 500_000
"""The most bytes of a value of several lines: by default a broker accepts one megabyte."""
_MOST_ROW_BYTES: Final = 16 << 20
"""A row that goes on for longer has a quote too many."""
_ROW_ENDS: Final = re.compile(rb"(?<=\r)(?![\r\n]|\Z)")


class UnclosedQuote(TandemError, code="file-unusable"):
    """A quoted text of a CSV file has no end; the rows before it are complete."""


@dataclass(frozen=True)
class BundledValue:
    """A record's value, the number of its first line in the file, counted from 1, and how many bytes of the file it used."""

    value: bytes
    line: int
    size: int


def lists(values: Iterable[BundledValue], most: int, join: Callable[[list[bytes]], bytes]) -> Iterator[BundledValue]:
    """The values as values that hold a list of at most `most` of them; `join` makes one."""
    items: list[BundledValue] = []
    size = 0

    def join_items() -> BundledValue:
        return BundledValue(join([item.value for item in items]), items[0].line, sum(item.size for item in items))

    for value in values:
        if items and (len(items) == most or size + value.size > _MOST_BYTES):
            yield join_items()
            items, size = [], 0
        items.append(value)
        size += value.size
    if items:
        yield join_items()


@dataclass
class Bundles:
    """Collects lines, with their ends, into values without the last end.

    A CSV row ends where its decoder ends it: a quoted text may hold line ends. A blank line is a value if each record has one
    line; otherwise blank lines are left out. A header is the first line or row; a repeated header, as in a file that replaces
    another, is not a row. `seen` counts lines.
    """

    layout: FileLayout
    file: str
    seen: int = 0
    _header: bytes | None = None
    _lines: list[bytes] = field(default_factory=list)
    _first: int = 0
    _bytes: int = 0
    _row: list[bytes] = field(default_factory=list)
    """The lines of a row whose quoted text is still open, from line `_row_line` on."""
    _row_line: int = 0
    _row_bytes: int = 0

    @classmethod
    def of(cls, source: Source, file: str = "the file") -> "Bundles":
        """An empty collection, for the source's format; `file` is named in errors."""
        return cls(layout(source), file)

    def values(self, lines: Iterable[bytes]) -> Iterator[BundledValue]:
        """All values of these lines. Raises UnclosedQuote after the values before it."""
        for line in lines:
            yield from self.add(line)
        yield from self.rest()
        self.end()

    def add(self, line: bytes) -> Iterator[BundledValue]:
        """Add a line; returns the values that are complete now. Raises UnclosedQuote for a row without an end in sight."""
        layout = self.layout
        # The decoder ends a row with quotes at a carriage return, too.
        ends = layout.delimiter is not None and layout.quotes and b"\r" in line
        for part in _ROW_ENDS.split(line) if ends else (line,):
            self.seen += 1
            is_open = layout.row_is_open(part, inside=bool(self._row))
            if not is_open and not self._row:
                yield from self._add(without_end(part), self.seen)
                continue
            if not self._row:
                self._row_line, self._row_bytes = self.seen, 0
            self._row.append(part)
            self._row_bytes += len(part)
            if not is_open:
                yield from self.cut_row()
            elif self._row_bytes > _MOST_ROW_BYTES:
                raise self._unclosed(f"has no end within {_MOST_ROW_BYTES >> 20} MiB")

    def cut_row(self) -> Iterator[BundledValue]:
        """End an open row here, whatever it lacks: a file that replaces another does not go on with its rows."""
        if self._row:
            row = without_end(b"".join(self._row))
            self._row = []
            yield from self._add(row, self._row_line)

    def rest(self) -> Iterator[BundledValue]:
        """The value of the complete lines and rows that are in no value yet, if there are any."""
        if self._lines:
            head = [] if self._header is None else [self._header]
            value = BundledValue(b"\n".join([*head, *self._lines]), self._first, self._bytes)
            self._lines, self._bytes = [], 0
            yield value

    def end(self) -> None:
        """Check that no row is open at the end of the file. Raises UnclosedQuote."""
        if self._row:
            raise self._unclosed("has no end in the file")

    def _add(self, line: bytes, number: int) -> Iterator[BundledValue]:
        if self.layout.as_it_is:
            yield BundledValue(line, number, len(line) + 1)
        elif self.layout.header and self._header is None:
            self._header = line
        elif line != self._header and (line.strip() or self._is_row(line)):
            if self._lines and self._bytes + len(line) > _MOST_BYTES:
                yield from self.rest()
            if not self._lines:
                self._first = number
            self._lines.append(line)
            self._bytes += len(line) + 1
            if len(self._lines) == self.layout.lines:
                yield from self.rest()

    def _is_row(self, blank: bytes) -> bool:
        """Whether a line without visible characters is a row of empty texts."""
        return self.layout.delimiter is not None and self.layout.delimiter in blank

    def _unclosed(self, what: str) -> UnclosedQuote:
        return UnclosedQuote(
            f"line {self._row_line} of {self.file}: a quoted text that begins in this row {what}; close the quote, and double "
            "quotes inside a quoted text"
        )
