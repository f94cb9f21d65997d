"""How the lines of a file become values of records, by the source's format."""

from dataclasses import dataclass
from typing import Any

from tandem.views.source.format import LineFormat
from tandem.views.source.formats.csv import Csv
from tandem.views.source.source import Source


@dataclass(frozen=True)
class FileLayout:
    """A record holds at most `lines` lines of a file; with `header`, each record begins with the file's first line.

    With the `delimiter` of CSV a line is a row, which may go over several lines of the file.
    """

    header: bool
    lines: int
    delimiter: bytes | None = None

    @property
    def as_it_is(self) -> bool:
        """Whether every line or row is a record."""
        return not self.header and self.lines == 1


def layout(source: Source) -> FileLayout:
    """The lines that a record of the source holds: one, or up to `max_events_per_record` where each event is a line.

    For a source with a key it is one line: lines may have different keys, and a record has one key.
    """
    decoder: Any = source.decoder
    if not isinstance(decoder, LineFormat):
        return FileLayout(header=False, lines=1)
    return FileLayout(
        decoder.header,
        source.max_events_per_record if source.max_events_per_record is not None and source.key is None else 1,
        decoder.delimiter.encode() if isinstance(decoder, Csv) else None,
    )
