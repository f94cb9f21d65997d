"""The lines of a file become values of records: without their ends, also blank ones, packed or not."""

import gzip
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from tandem.cli.records import lines as reading
from tandem.cli.records.lines import without_end
from tandem.views.errors import TandemError

CONTENT = b"one\n\n two \r\n\xff\x00\nlast"

HOLE = b"\0" * 3_000_000


def lines(file: Path) -> Iterator[bytes]:
    """The lines without their ends."""
    return map(without_end, reading.lines(file))


LINES = [b"one", b"", b" two ", b"\xff\x00", b"last"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (CONTENT, LINES),
        (CONTENT + b"\n", LINES),
        (b"", []),
        (b"\n", [b""]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\r", [b"a\r"]),
        (HOLE, []),
        (HOLE + b"a\n" + HOLE + b"b", [b"a", b"b"]),
        (b"a\0b\0\n", [b"a\0b\0"]),
    ],
)
def test_each_line_is_a_value(tmp_path: Path, content: bytes, expected: list[bytes]) -> None:
    file = tmp_path / "lines"
    file.write_bytes(content)
    assert list(lines(file)) == expected


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "lines.gz"
    file.write_bytes(gzip.compress(CONTENT))
    assert list(lines(file)) == LINES


def frame(data: bytes) -> bytes:
    buffer = pa.BufferOutputStream()
    with pa.CompressedOutputStream(buffer, "zstd") as sink:
        sink.write(data)
    return bytes(buffer.getvalue())


def test_a_file_of_zstd_frames_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "lines.zst"
    packed = b"".join(map(frame, (CONTENT, b"\nmore")))
    file.write_bytes(packed)
    assert list(lines(file)) == [*LINES, b"more"]
    file.write_bytes(packed[:-9])
    with pytest.raises(TandemError, match=f"cannot read {file}: "):
        list(lines(file))
    fifo = tmp_path / "pipe.zst"
    os.mkfifo(fifo)
    writer = Thread(target=lambda: fifo.write_bytes(packed))
    writer.start()
    assert list(lines(fifo)) == [*LINES, b"more"]
    writer.join()


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONTENT)))
    assert list(lines(Path("-"))) == LINES


@pytest.mark.parametrize("damage", [b"no gzip", gzip.compress(CONTENT * 1000, mtime=0)[:-20]])
def test_a_broken_file_is_one_sentence(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "lines.gz"
    file.write_bytes(damage)
    with pytest.raises(TandemError, match=f"cannot read {file}: "):
        list(lines(file))


def test_a_line_without_end_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is a hole beside it no line: memory is bounded."""
    monkeypatch.setattr(reading, "LONGEST", 1 << 20)
    file = tmp_path / "lines"
    file.write_bytes(b"a\n" + HOLE + b"b\n" + b"x" * (1 << 20))
    found = lines(file)
    assert [next(found), next(found)] == [b"a", b"b"]
    with pytest.raises(TandemError, match=f"line 3 of {file} has more than 1 MiB: it is not a file of lines"):
        next(found)
