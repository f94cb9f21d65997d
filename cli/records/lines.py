"""A file as lines, with their ends, blank lines too."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from tandem.cli.records.input_stream import input_stream
from tandem.views.errors import TandemError

LONGEST: Final = 64 << 20
"""The most bytes of a line: no broker accepts a record of that size."""


def lines(file: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked if its name ends in .gz, or of standard input for `-`.

    Raises TandemError if the file cannot be read, its compression is broken, or a line is too long.
    """
    with input_stream(file) as stream:
        yield from stream_lines(stream, str(file))


def stream_lines(stream: BinaryIO, file: str, *, holes: bool = True) -> Iterator[bytes]:
    """The lines of a stream; errors name the file.

    A line ends with a line feed; the last one need not. NUL bytes before a line are left out: a log that was truncated while its
    writer went on has a hole. Without `holes` they stay, as before the id of a schema. Raises TandemError if a line is too long.
    """
    number = 1
    while line := stream.readline(LONGEST):
        if holes and line[0] == 0:
            if not (line := line.lstrip(b"\0")):
                continue
            if not line.endswith(b"\n"):
                line += stream.readline(LONGEST)
        ended = line.endswith(b"\n")
        if not ended and len(line) >= LONGEST:
            raise too_long(number, file)
        yield line
        number += ended


def too_long(number: int, file: Path | str) -> TandemError:
    """The error for a line of more than LONGEST bytes."""
    return TandemError(
        f"line {number} of {file} has more than {LONGEST >> 20} MiB: it is not a file of lines", code="file-unusable"
    )


def without_end(line: bytes) -> bytes:
    """The line without its line feed, and without a carriage return before that."""
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
