"""Errors of Delta tables, and the storage's reason in one line.

TandemError
├── Conflict        the table has a newer version than the handle: read and decide again
├── Unreadable      the table or one of its files cannot be read
│   └── Vanished    a file of the handle's version was deleted
└── Unwritable      a commit failed; the caller must look up whether it landed
"""

import re
from typing import Final, NoReturn

import pyarrow as pa
from deltalake.exceptions import DeltaError

from tandem.infra.storage.resolve import is_local
from tandem.infra.storage.storage import ADVICE, refused
from tandem.views.errors import TandemError

FAILURES: Final = (DeltaError, OSError, ValueError, pa.ArrowException)
"""The errors of delta-rs and Arrow for damaged logs and files, absent servers and full disks."""

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_CAUSE: Final = "\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}"


class Conflict(TandemError, code="commit-conflict"):
    """The table has a newer version than the handle of the commit; nothing was committed."""


class Unreadable(TandemError, code="table-unreadable"):
    """A table, or a file of it, cannot be read."""


class Vanished(Unreadable, code="file-vanished"):
    """A data file was deleted, as by a vacuum: a newer version of the table may not need it."""


class Unwritable(TandemError, code="table-unwritable"):
    """A commit ended in an error; it may have landed nevertheless."""


def reason(error: BaseException) -> str:
    """The storage's error in one line: of delta-rs's chain of causes, the first and the innermost."""
    lines = [_COLOUR.sub("", line).strip() for line in str(error).splitlines()]
    first, *causes = [line for line in lines if line] or [type(error).__name__]
    innermost = next((line for line in reversed(causes) if line.startswith(_CAUSE)), None)
    return first if innermost is None else f"{first}: {innermost.removeprefix(_CAUSE).strip()}"


def unreadable(what: str, error: BaseException) -> NoReturn:
    """Raise Unreadable with the table, or its file, and the first line of the reason; an error of memory stays what it is."""
    if isinstance(error, MemoryError):  # Arrow's is both
        raise error
    advice = "; restore it, or remove it if it can be rebuilt"
    if isinstance(error, TandemError):  # its sentence already has the advice
        advice = ""
    elif refused(error):
        advice = f"; {ADVICE}"
    elif not is_local(what):  # most often the store is away, and nothing is damaged
        advice = "; run the command again; if the object store answers and the table is damaged, restore it"
    raise Unreadable(f"cannot read table {what}: {reason(error)}{advice}") from error
