"""Lines of a file as values of records: one line each, or several, by the source's format."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tandem.views.decode.file import FileLayout, layout
from tandem.views.source.source import Source

_MOST_BYTES: Final = 500_000
"""The most bytes of a value of several lines: by default a broker accepts one megabyte."""


@dataclass(frozen=True)
class BundledValue:
    """A record's value, the number of its first line in the file, counted from 1, and how many bytes of the file it used."""

    value: bytes
    line: int
    size: int


@dataclass
class Bundles:
    """Collects lines into values. A blank line is a value if each record has one line; otherwise blank lines are left out.

    A header is the first line; a repeated header, as in a file that replaces another, is not a row. `seen` counts lines.
    """

    layout: FileLayout
    seen: int = 0
    _header: bytes | None = None
    _lines: list[bytes] = field(default_factory=list)
    _first: int = 0
    _bytes: int = 0

    @classmethod
    def of(cls, source: Source) -> "Bundles":
        """An empty collection, for the source's format."""
        return cls(layout(source))

    def values(self, lines: Iterable[bytes]) -> Iterator[BundledValue]:
        """All values of these lines."""
        for line in lines:
            yield from self.add(line)
        yield from self.rest()

    def add(self, line: bytes) -> Iterator[BundledValue]:
        """Add a line; returns the values that are complete now."""
        self.seen += 1
        if self.layout.as_it_is:
            yield BundledValue(line, self.seen, len(line) + 1)
        elif self.layout.header and self._header is None:
            self._header = line
        elif line.strip() and line != self._header:
            if self._lines and self._bytes + len(line) > _MOST_BYTES:
                yield from self.rest()
            if not self._lines:
                self._first = self.seen
            self._lines.append(line)
            self._bytes += len(line) + 1
            if len(self._lines) == self.layout.lines:
                yield from self.rest()

    def rest(self) -> Iterator[BundledValue]:
        """The value of the lines that are in no value yet, if there are any."""
        if self._lines:
            head = [] if self._header is None else [self._header]
            value = BundledValue(b"\n".join([*head, *self._lines]), self._first, self._bytes)
            self._lines, self._bytes = [], 0
            yield value
