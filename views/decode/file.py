"""How the lines of a file become values of records, by the source's format."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from tandem.views.source.format import LineFormat
from tandem.views.source.formats.avro import Avro, AvroFromRegistry
from tandem.views.source.formats.change_events.debezium_avro import DebeziumAvro, DebeziumFromRegistry
from tandem.views.source.formats.csv import Csv, quote_is_open
from tandem.views.source.formats.protobuf import Protobuf, ProtobufFromRegistry
from tandem.views.source.formats.row_escapes import escape_is_open
from tandem.views.source.formats.schema_registry import FromRegistry
from tandem.views.source.source import Source

ValueEnds = Literal["lines", "framed lines", "lengths"]
"""How a file of the source's values is divided.

* lines: each ends with a line feed.
* framed lines: so does each, after a zero byte and the four bytes of a schema's id, which may hold a line feed.
* lengths: they are bytes of any kind, and each is preceded by its length.
"""


@dataclass(frozen=True)
class FileLayout:
    """A record holds at most `lines` lines of a file; with `header`, each record begins with the file's first line.

    With the `delimiter` of CSV a line is a row, which may go on in the next: inside `quotes`, or after a backslash.
    """

    header: bool
    lines: int
    delimiter: bytes | None = None
    quotes: bool = True
    escapes: bool = False

    @property
    def as_it_is(self) -> bool:
        """Whether every line or row is a record."""
        return not self.header and self.lines == 1

    def row_is_open(self, line: bytes, *, inside: bool) -> bool:
        """Whether a row goes on after this line, which begins a row or with `inside` goes on in one."""
        if self.delimiter is None or not (self.quotes or self.escapes):
            return False
        if self.escapes:
            return b"\\" in line and escape_is_open(line)
        return (inside or b'"' in line) and quote_is_open(line, self.delimiter, inside=inside)


def layout(source: Source) -> FileLayout:
    """The lines that a record of the source holds: one, or up to `max_events_per_record` where each event is a line.

    For a source with a key it is one line: lines may have different keys, and a record has one key.
    """
    decoder: Any = source.decoder
    if not isinstance(decoder, LineFormat):
        return FileLayout(header=False, lines=1)
    lines = source.max_events_per_record if source.max_events_per_record is not None and source.key is None else 1
    if not isinstance(decoder, Csv):
        return FileLayout(decoder.header, lines)
    return FileLayout(
        decoder.header, lines, decoder.delimiter.encode(), quotes=decoder.quote is not None, escapes=decoder.escape is not None
    )


_BINARY: Final = (Avro, AvroFromRegistry, DebeziumAvro, DebeziumFromRegistry, Protobuf, ProtobufFromRegistry)


def value_ends(source: Source) -> ValueEnds:
    """How a file of values is divided, by the source's format. The values of a function are lines."""
    if isinstance(source.decoder, _BINARY):
        return "lengths"
    return "framed lines" if isinstance(source.decoder, FromRegistry) else "lines"


def without_header(source: Source, value: bytes) -> bytes:
    """What a value holds after the header that each record of the source repeats; the value if there is none, or nothing else."""
    form = layout(source)
    if not form.header:
        return value
    end, inside = 0, False
    for line in value.splitlines(keepends=True):
        end += len(line)
        inside = form.row_is_open(line, inside=inside)
        if not inside:
            break
    return value[end:] or value
