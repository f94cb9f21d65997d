"""The mark of a cursor or a token of changes: which of several workers has what it names in memory."""

from typing import Final

_MARK: Final = "~"
_DIGITS: Final = 4
"""More than any server's workers need. Python refuses to read very many."""


def marked(text: str, worker: int | None) -> str:
    """The text with the worker's mark; unchanged for a server without workers."""
    return text if worker is None else f"{worker}{_MARK}{text}"


def unmarked(text: str) -> str:
    """The text without a mark, if it has one."""
    return text if worker_of(text) is None else text.partition(_MARK)[2]


def worker_of(text: str) -> int | None:
    """The worker that marked a text; None for a text without a mark."""
    number, mark, _ = text.partition(_MARK)
    return int(number) if mark and len(number) <= _DIGITS and number.isascii() and number.isdigit() else None
