"""Runs a task's command so that the kernel kills it when process PID dies: `dying_with.py PID WORDS...`.

It is a separate program because a task's process may have threads: then nothing but exec is safe between fork and exec.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

NOT_FOUND: Final = 127
_PR_SET_PDEATHSIG: Final = 1


def become(parent: int, words: Sequence[str]) -> None:
    """Ask the kernel to kill this process when its parent dies (on Linux), check that the parent lives, and run the words."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)
    try:
        os.execvp(words[0], list(words))  # noqa: S606 - the command that the configuration names
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        sys.exit(NOT_FOUND)


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
