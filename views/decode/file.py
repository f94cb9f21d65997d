"""How a file of a source's format becomes the values of records: what of it one record holds."""

from dataclasses import dataclass

from views.decode.formats.csv import Csv
from views.decode.records import BY_LINE
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
    decoder = source.decoder
    by_line = isinstance(decoder, Csv) or (isinstance(decoder, str) and decoder in BY_LINE)
    many = source.many if by_line and source.many is not None and source.key is None else 1
    return Layout(isinstance(decoder, Csv) and decoder.header, many)
