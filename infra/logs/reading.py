"""Reads the logs of a project's parts, merged by time: existing lines, and new ones."""

import heapq
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from tandem.infra import clock
from tandem.infra.logs.files import LOG, OUT, earlier
from tandem.infra.logs.lines import Line, parse

_CHUNK: Final = 1 << 20


def parts(state: Path) -> list[str]:
    """The parts that have a log in this folder."""
    return sorted({path.stem for path in _files(state)})


def merged(state: Path, only: Callable[[str], bool] = lambda _: True) -> Iterator[Line]:
    """All existing lines, by time; lines of one file stay in its order. `only` selects the parts."""
    files = [path for path in _files(state) if only(path.stem)]
    yield from heapq.merge(*(_lines(path) for path in files), key=lambda line: line.time)


@dataclass
class Following:
    """New lines after the existing ones, also of parts that start later, and across rotations."""

    state: Path
    only: Callable[[str], bool] = lambda _: True
    _tails: dict[Path, "_Tail"] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for path in _files(self.state):
            self._tails[path] = _Tail(path, at_end=True)

    def new(self) -> list[Line]:
        """The lines since the last poll, by time; returns at once."""
        for path in _files(self.state):
            self._tails.setdefault(path, _Tail(path, at_end=False))
        found = [line for path, tail in self._tails.items() if self.only(path.stem) for line in tail.new()]
        return sorted(found, key=lambda line: line.time)


@dataclass
class _Tail:
    """A growing file, which may be renamed and replaced by a new one, or truncated."""

    path: Path
    at_end: bool
    _stream: BinaryIO | None = field(default=None, init=False, repr=False)
    _rest: bytes = field(default=b"", init=False, repr=False)

    def __post_init__(self) -> None:
        self._stream = _opened(self.path)
        if self._stream is not None and self.at_end:
            self._stream.seek(0, os.SEEK_END)

    def new(self) -> Iterator[Line]:
        while self._stream is not None:
            moved = _moved(self.path, self._stream)
            if os.fstat(self._stream.fileno()).st_size < self._stream.tell():
                self._stream.seek(0)
            while chunk := self._stream.read(_CHUNK):
                *whole, self._rest = (self._rest + chunk).split(b"\n")
                yield from _parsed(whole, self.path)
            if not moved:
                return
            yield from _parsed([self._rest], self.path)
            self._stream.close()
            self._stream, self._rest = _opened(self.path), b""
        self._stream = _opened(self.path)


def _files(state: Path) -> list[Path]:
    return sorted(path for path in (state / "logs").glob("*") if path.suffix in (LOG, OUT) and path.is_file())


def _lines(path: Path) -> Iterator[Line]:
    """A part's lines, the oldest file first; a line without a time has that of the line before it."""
    for one in (*reversed(earlier(path)), path):
        try:
            with one.open("rb") as stream:
                written = datetime.fromtimestamp(os.fstat(stream.fileno()).st_mtime, UTC)
                at = None
                for raw in stream:
                    if line := parse(raw, path.stem, at=at or written):
                        # The clock may be set back; a file's lines stay in their order.
                        at = max(at, line.time) if at else line.time
                        yield Line(at, line.part, line.level, line.text, line.known)
        except FileNotFoundError:
            continue


def _parsed(raw: list[bytes], path: Path) -> Iterator[Line]:
    now = clock.now()
    yield from (line for each in raw if (line := parse(each, path.stem, at=now)))


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _moved(path: Path, stream: BinaryIO) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False
