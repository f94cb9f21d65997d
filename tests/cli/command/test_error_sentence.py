"""On a full disk any command prints one sentence that says what to do; of an unforeseen error it tells how to see the stack."""

import errno
import os

import pytest

from tandem.cli.command.error_sentence import foreseen


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_needs_no_stack(number: int) -> None:
    said = os.strerror(number)
    said = f"{said[:1].lower()}{said[1:]}"
    where = "where the project's state, its tables and temporary files are"
    assert str(foreseen(OSError(number, os.strerror(number)))) == f"{said}; free space {where}, then run the command again"
    of_file = OSError(number, os.strerror(number), "/tables/events")
    assert str(foreseen(of_file)) == f"{said}: /tables/events; free space, then run the command again"


@pytest.mark.parametrize("error", [OSError(errno.EBADF, "bad file descriptor"), ValueError("x")])
def test_what_nobody_foresaw_keeps_its_stack(error: Exception) -> None:
    assert foreseen(error) is None
