"""Follows a growing file by name, as `tail -F` does, and yields its lines."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from tandem.cli.records.lines import LONGEST, split_lines, too_long

_PAUSE_S = 0.2
_CHUNK = 1 << 20
_REMEMBERED: Final = 1024
"""The number of bytes by which a grown file differs from a truncated file that has grown past the position again."""


def followed(
    file: Path,
    stop: Event,
    *,
    pause_s: float = _PAUSE_S,
    idle: Callable[[], object] = lambda: None,
    restarted: Callable[[str], object] = lambda _: None,
    framed: bool = False,
) -> Iterator[bytes]:
    """Every line of the file from its start on, with its end, then each new one, until `stop` is set.

    * A file renamed or replaced is read to its end before the new one of that name is read from its start. Its last line is
      complete, the last line of a file that still grows waits for its end.
    * A truncated file is read from its start: it is shorter than the position, or has other bytes at its start or before the
      position. The lines that were not read before are lost.
    * NUL bytes before a line are left out: they are a hole, where a writer went on at its old position in a truncated file. Of
      `framed` lines they are the start of a schema's id (see `split_lines`).
    * An absent file is waited for.

    `idle` is called whenever there is nothing to read, `restarted` with the reason before the first line of another file or of a
    truncated one. Raises TandemError if a line is too long.
    """
    reading, rest, number = _opened(file), b"", 1
    try:
        while True:
            # Checked before reading: data that is read after the file was replaced is its last.
            stopping, replaced = stop.is_set(), reading is not None and reading.replaced(file)
            chunk = reading.read() if reading else b""
            if chunk is None:
                rest, number = b"", 1
                restarted(f"{file} was truncated: reading it from its start")
            elif chunk:
                whole, rest = split_lines(rest + chunk, framed=framed)
                yield from whole
                number += len(whole)
                if len(rest) > LONGEST:
                    raise too_long(number, file)
            elif stopping:
                return
            elif reading is None or replaced:
                if rest:
                    yield rest
                if reading:
                    os.close(reading.descriptor)
                    reading = None
                    restarted(f"{file} was replaced: reading the new file from its start")
                reading, rest, number = _opened(file), b"", 1
                if reading is None:
                    idle()
                    stop.wait(pause_s)
            else:
                idle()
                stop.wait(pause_s)
    finally:
        if reading:
            os.close(reading.descriptor)


@dataclass
class _FollowedFile:
    """An open file and how far it was read; `head` and `before` are the first bytes, and the last before the position."""

    descriptor: int
    position: int = 0
    head: bytes = b""
    before: bytes = b""
    _checked: tuple[int, int] = field(default=(-1, -1))

    def read(self) -> bytes | None:
        """The next bytes, empty at the end of the file; None if it was truncated, and is read from its start now."""
        chunk = os.pread(self.descriptor, _CHUNK, self.position)
        status = os.fstat(self.descriptor)
        state = (status.st_size, status.st_mtime_ns)
        if (chunk or state != self._checked) and self._truncated(status.st_size):
            self.position, self.head, self.before = 0, b"", b""
            return None
        self._checked = state
        self.position += len(chunk)
        self.head = (self.head + chunk[:_REMEMBERED])[:_REMEMBERED]
        self.before = (self.before + chunk[-_REMEMBERED:])[-_REMEMBERED:]
        return chunk

    def replaced(self, file: Path) -> bool:
        """Whether the name now stands for another file. A file that is merely gone may still be written to."""
        try:
            now = file.stat()
        except FileNotFoundError:
            return False
        then = os.fstat(self.descriptor)
        return (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino)

    def _truncated(self, size: int) -> bool:
        return (
            size < self.position
            or os.pread(self.descriptor, len(self.head), 0) != self.head
            or os.pread(self.descriptor, len(self.before), self.position - len(self.before)) != self.before
        )


def _opened(file: Path) -> _FollowedFile | None:
    try:
        return _FollowedFile(os.open(file, os.O_RDONLY))
    except FileNotFoundError:
        return None
