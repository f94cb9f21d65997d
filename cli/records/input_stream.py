"""A file that a command names, or standard input, as a stream whose first bytes can be read ahead."""

import gzip
import io
import select
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

import pyarrow as pa

from tandem.views.errors import TandemError

BUFFER: Final = 1 << 20
_PAUSE_S: Final = 0.2
_PATIENCE_S: Final = 2.0


@contextmanager
def input_stream(file: Path) -> Iterator[io.BufferedReader]:
    """A file, unpacked if its name ends in .gz or .zst, or standard input for `-`.

    Raises TandemError where the file cannot be read or its compression is broken, also while the caller reads it.
    """
    try:
        with _open(file) as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TandemError(f"cannot read {file}: {reason}", code="file-unusable") from error


def can_be_read_twice(file: Path) -> bool:
    """Whether it is a plain file: a pipe gives its bytes once."""
    return str(file) != "-" and file.is_file()


def first_bytes(stream: io.BufferedReader) -> bytes:
    """The first bytes, at most BUFFER; they stay in the stream. Of a pipe, those that its first writes bring."""
    return stream.peek(BUFFER)[:BUFFER]


def _open(file: Path) -> io.BufferedReader:
    if can_be_read_twice(file):
        return io.BufferedReader(cast("io.RawIOBase", _unpack(file, file.open("rb", buffering=0))), BUFFER)
    if str(file) == "-":
        return io.BufferedReader(_Pipe(sys.stdin.buffer), BUFFER)
    return io.BufferedReader(_Pipe(_unpack(file, file.open("rb", buffering=0))), BUFFER)


def _unpack(file: Path, stream: io.FileIO) -> BinaryIO:
    """The stream, unpacked by the file's name."""
    if file.suffix == ".gz":
        return cast("BinaryIO", gzip.open(stream, "rb"))
    if file.suffix == ".zst":
        return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd"))
    return cast("BinaryIO", stream)


class _Pipe(io.RawIOBase):
    """A stream whose first read waits for what a writer sends at once: until it pauses, or fills the buffer.

    A writer may send a header before the rows, so that its first write alone says little.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._begun = False

    def close(self) -> None:
        if not self.closed and self._stream is not sys.stdin.buffer:
            self._stream.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        read = self._read(len(buffer))
        if not self._begun:
            self._begun = True
            read += self._more(len(buffer) - len(read)) if read else b""
        memoryview(buffer)[: len(read)] = read
        return len(read)

    def _read(self, size: int) -> bytes:
        read1 = getattr(self._stream, "read1", self._stream.read)
        return cast("bytes", read1(size)) or b""

    def _more(self, size: int) -> bytes:
        """What follows without a pause."""
        pieces, deadline = b"", time.monotonic() + _PATIENCE_S
        while len(pieces) < size and time.monotonic() < deadline and self._is_ready():
            if not (piece := self._read(size - len(pieces))):
                break
            pieces += piece
        return pieces

    def _is_ready(self) -> bool:
        try:
            return bool(select.select([self._stream], [], [], _PAUSE_S)[0])
        except (OSError, ValueError):  # not a file of the system: all of it is in memory
            return True
