"""A file as the values of records: each line without its line end, blank lines too."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tandem.views.errors import TandemError


def lines(file: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked if its name ends in .gz, or of standard input for `-`.

    A line ends with a line feed, or a carriage return and a line feed; the last one need not. Raises TandemError if the
    file cannot be read or its compression is broken.
    """
    try:
        with _opened(file) as stream:
            for line in stream:
                yield without_end(line)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TandemError(f"cannot read {file}: {reason}", code="file-unusable") from error


def without_end(line: bytes) -> bytes:
    """The line without its line feed, and without a carriage return before that."""
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line


def _opened(file: Path) -> BinaryIO | gzip.GzipFile:
    if str(file) == "-":
        return sys.stdin.buffer
    return gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")
