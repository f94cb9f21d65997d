"""How a file of a source's format becomes the values of records: what of it one record holds."""

from dataclasses import dataclass
from typing import Any

from views.source.format import LineFormat
from views.source.source import Source


@dataclass(frozen=True)
class Layout:
    """A record holds at most N `lines` of a file, after the file's first line if that is a `header`."""

    header: bool
    lines: int

    @property
    def as_it_is(self) -> bool:
        """Whether every line is a record."""
        return not self.header and self.lines == 1


def layout(source: Source) -> Layout:
    """What a record of the source holds of a file: one line, or as many as its events where each is a line.

    Lines of a source with a key are not put together: they may have different keys, and a record has one.
    """
    decoder: Any = source.decoder
    if not isinstance(decoder, LineFormat):
        return Layout(header=False, lines=1)
    return Layout(decoder.header, source.many if source.many is not None and source.key is None else 1)
