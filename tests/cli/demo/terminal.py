"""The demo's screen as a person reads it: on a terminal of 80 columns and 24 lines, whose sums a person may check."""

import os
import pty
import re
import termios
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

COLUMNS, LINES = 80, 24
LAST = "Ctrl-C stops all parts of this demo"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def opened() -> tuple[int, int]:
    """A pseudo-terminal: the descriptor from which a person would see it, and that of a program."""
    person, program = pty.openpty()
    termios.tcsetwinsize(program, (LINES, COLUMNS))
    return person, program


def read_to_end(person: int) -> bytes:
    """All that programs wrote, once each has closed its side; the kernel hands a long text over in pieces."""
    text = b""
    with suppress(OSError):  # EIO: no program has the terminal open
        while piece := os.read(person, 1 << 16):
            text += piece
    os.close(person)
    return text


def raw_frames(text: str) -> list[str]:
    """The screens that a terminal showed one after the other, with their colours."""
    parts = re.split(r"(?=(?:\x1b\[[0-9;]*m)*now(?:\x1b\[[0-9;]*m)* {3,})", text.replace("\r", ""))
    return [part for part in parts if _CONTROL.sub("", part).startswith("now ")]


def frames(text: str) -> list[list[str]]:
    """The complete ones as lines without colours; each fits the terminal."""
    found = []
    for frame in raw_frames(text):
        lines = [line.rstrip() for line in _CONTROL.sub("", frame).splitlines()]
        if LAST not in lines:
            continue
        lines = lines[: lines.index(LAST) + 1]
        assert max(map(len, lines)) <= COLUMNS
        assert len(lines) < LINES
        found.append(lines)
    return found


def number(cell: str) -> Decimal:
    return Decimal(0) if cell == "-" else Decimal(cell.replace(",", ""))


def sums(lines: Sequence[str]) -> dict[tuple[str, str], tuple[Decimal, Decimal, Decimal]]:
    """The rows below the heading with + and =, each added up."""
    titles = ["view", "measure", "batch", "+", "realtime", "=", "merged"]
    heading = next((at for at, line in enumerate(lines) if line.split() == titles), len(lines))
    rows = {}
    for line in lines[heading + 1 :]:
        if len(cells := line.split()) != 5:
            break
        batch, realtime, merged = map(number, cells[2:])
        assert batch + realtime == merged, line
        rows[cells[0], cells[1]] = (batch, realtime, merged)
    return rows


def words(lines: Sequence[str]) -> tuple[Decimal, Decimal]:
    """The records below the cut and from there on, as sentences have them; they add up to the records that are counted."""
    number_ = r"([\d,]+)"
    sentence = (
        f"below the cut {number_} records from batch, from there {number_} from speed: {number_} of the log's {number_} records"
    )
    found = re.search(sentence, " ".join(lines))
    assert found is not None, lines
    below, after, counted, end = map(number, found.groups())
    assert below + after == counted <= end
    return below, after
