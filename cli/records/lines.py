"""A file as lines, with their ends, blank lines too."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from tandem.cli.records.input_stream import input_stream
from tandem.views.errors import TandemError

LONGEST: Final = 64 << 20
"""The most bytes of a line: no broker accepts a record of that size."""

FRAME_BYTES: Final = 5
_FRAMED_LINE: Final = re.compile(rb"(?:\0[\s\S]{4}|(?!\0))[^\n]*\n")


def lines(file: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked if its name ends in .gz, or of standard input for `-`.

    Raises TandemError if the file cannot be read, its compression is broken, or a line is too long.
    """
    with input_stream(file) as stream:
        yield from stream_lines(stream, str(file))


def split_lines(content: bytes, *, framed: bool = False) -> tuple[list[bytes], bytes]:
    """The complete lines, with their ends, and what follows the last.

    NUL bytes before a line are left out: a log that was truncated while its writer went on has a hole. If lines are `framed`, a
    NUL byte begins the id of a schema, whose bytes may be line feeds.
    """
    if framed:
        whole, at = [], 0
        while line := _FRAMED_LINE.match(content, at):
            whole.append(line[0])
            at = line.end()
        return whole, content[at:]
    *parts, rest = content.split(b"\n")
    return [part.lstrip(b"\0") + b"\n" for part in parts], rest.lstrip(b"\0")


def stream_lines(stream: BinaryIO, file: str, *, framed: bool = False) -> Iterator[bytes]:
    """The lines of a stream, as `split_lines` divides it; errors name the file.

    A line ends with a line feed; the last one need not. Raises TandemError if a line is too long.
    """
    number = 1
    while line := stream.readline(LONGEST):
        if framed and line[0] == 0:
            # A line feed in the id does not end the line.
            while line.endswith(b"\n") and len(line) <= FRAME_BYTES and (more := stream.readline(LONGEST)):
                line += more
        elif line[0] == 0:
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
