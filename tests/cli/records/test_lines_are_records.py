"""The lines of a file become values of records: without their ends, also blank ones, packed or not."""

import gzip
import io
import sys
from pathlib import Path

import pytest

from tandem.cli.records.lines import lines
from tandem.views.errors import TandemError

CONTENT = b"one\n\n two \r\n\xff\x00\nlast"
LINES = [b"one", b"", b" two ", b"\xff\x00", b"last"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [(CONTENT, LINES), (CONTENT + b"\n", LINES), (b"", []), (b"\n", [b""]), (b"a\rb\n", [b"a\rb"]), (b"a\r", [b"a\r"])],
)
def test_each_line_is_a_value(tmp_path: Path, content: bytes, expected: list[bytes]) -> None:
    file = tmp_path / "lines"
    file.write_bytes(content)
    assert list(lines(file)) == expected


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "lines.gz"
    file.write_bytes(gzip.compress(CONTENT))
    assert list(lines(file)) == LINES


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONTENT)))
    assert list(lines(Path("-"))) == LINES


@pytest.mark.parametrize("damage", [b"no gzip", gzip.compress(CONTENT * 1000, mtime=0)[:-20]])
def test_a_broken_file_is_one_sentence(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "lines.gz"
    file.write_bytes(damage)
    with pytest.raises(TandemError, match=f"cannot read {file}: "):
        list(lines(file))
