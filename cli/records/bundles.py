"""Lines of a file as the values of records: one each, or bundled as the source's format has it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from views.decode.file import Layout, layout
from views.source.source import Source

_MOST_BYTES: Final = 500_000
"""The most bytes of a value of several lines: a broker takes one megabyte unless it is configured otherwise."""


@dataclass(frozen=True)
class Value:
    """A record's value, the number of its first line in the file, counted from 1, and how many bytes of the file it used."""

    value: bytes
    line: int
    size: int


@dataclass
class Bundles:
    """Lines on their way into values. A line that is its record alone may be blank; else blank lines are left out.

    A header is the first line; where it stands again, as in a file that replaces another, it is not a row. `seen` counts lines.
    """

    layout: Layout
    seen: int = 0
    _header: bytes | None = None
    _lines: list[bytes] = field(default_factory=list)
    _first: int = 0
    _bytes: int = 0

    @classmethod
    def of(cls, source: Source) -> "Bundles":
        """None yet, of the source's format."""
        return cls(layout(source))

    def values(self, lines: Iterable[bytes]) -> Iterator[Value]:
        """All that these lines make."""
        for line in lines:
            yield from self.add(line)
        yield from self.rest()

    def add(self, line: bytes) -> Iterator[Value]:
        """One line more: the values that are complete with it."""
        self.seen += 1
        if self.layout.as_it_is:
            yield Value(line, self.seen, len(line) + 1)
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

    def rest(self) -> Iterator[Value]:
        """What is not in a value yet, as one."""
        if self._lines:
            head = [] if self._header is None else [self._header]
            value = Value(b"\n".join([*head, *self._lines]), self._first, self._bytes)
            self._lines, self._bytes = [], 0
            yield value
