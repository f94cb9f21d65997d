"""Follows a growing file by name, as `tail -F` does, and yields its lines."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import BinaryIO

from tandem.cli.records.lines import without_end

_PAUSE_S = 0.2
_CHUNK = 1 << 20


def followed(file: Path, stop: Event, *, pause_s: float = _PAUSE_S, idle: Callable[[], object] = lambda: None) -> Iterator[bytes]:
    """Every line of the file from its start on, then each new one, until `stop` is set.

    A file renamed or replaced is read to its end before the new one of that name is read from its start; a truncated file is read
    from its start; an absent file is waited for. The last line of a file that still grows waits for its end; the last line of a
    replaced file is complete. `idle` is called whenever there is nothing to read.
    """
    stream, rest = _opened(file), b""
    try:
        while True:
            # Checked before reading: data that is read after the file was replaced is its last.
            stopping, replaced = stop.is_set(), stream is not None and _replaced(file, stream)
            if stream and (chunk := stream.read(_CHUNK)):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (without_end(line + b"\n") for line in whole)
            elif stopping:
                return
            elif stream is None or replaced:
                if rest:
                    yield rest
                if stream:
                    stream.close()
                stream, rest = _opened(file), b""
                if stream is None:
                    idle()
                    stop.wait(pause_s)
            elif os.fstat(stream.fileno()).st_size < stream.tell():
                stream.seek(0)
                rest = b""
            else:
                idle()
                stop.wait(pause_s)
    finally:
        if stream:
            stream.close()


def _opened(file: Path) -> BinaryIO | None:
    try:
        return file.open("rb")
    except FileNotFoundError:
        return None


def _replaced(file: Path, stream: BinaryIO) -> bool:
    """Whether the name now stands for another file. A file that is merely gone may still be written to."""
    try:
        now = file.stat()
    except FileNotFoundError:
        return False
    then = os.fstat(stream.fileno())
    return (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino)
