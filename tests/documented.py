"""A page of docs/ as what a reader does: files to write, commands to type, and what these show."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tandem.cli.__main__ import main

DOCS = Path(__file__).parents[1] / "docs"

_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class File:
    """A block whose fence names a file."""

    name: str
    text: str

    def write(self, folder: Path) -> None:
        (folder / self.name).write_text(self.text, "utf-8")


@dataclass
class Command:
    """A line of a block of shell, and the block of text after it."""

    line: str
    shown: str = ""

    def missing(self, said: str) -> str | None:
        """A part of what is shown that was not said in its place; `...` stands for anything, be it a line or a part of one."""
        at = 0
        for part in filter(None, re.split(r"^\.\.\.\n|\.\.\.", self.shown, flags=re.MULTILINE)):
            found = said.find(part, at)
            if found < 0:
                return part
            at = found + len(part)
        return None

    def show(self, capsys: pytest.CaptureFixture[str], *further: str, code: int | None = 0) -> str:
        """Type the command, with further arguments: it shows what the page shows, which this returns; None is any exit code."""
        capsys.readouterr()
        ended = main([*shlex.split(self.line)[1:], *further])
        out, err = capsys.readouterr()
        said = "\n".join(line.rstrip() for line in (out + err).splitlines()) + "\n"
        assert code is None or ended == code, said
        assert self.missing(said) is None, f"{self.line}: {self.missing(said)!r} is not in\n{said}"
        return said


def steps(page: str) -> Iterator[File | Command]:
    """The page's steps in order."""
    last: Command | None = None
    for language, name, text in _BLOCK.findall((DOCS / page).read_text("utf-8")):
        if language == "text":
            assert last is not None, text
            last.shown = text
            continue
        if last is not None:
            yield last
            last = None
        if name:
            yield File(name, text)
        elif language == "sh":
            *lines, final = text.splitlines()
            yield from map(Command, lines)
            last = Command(final)
    if last is not None:
        yield last
