"""What a task starts, and what becomes its command: `dying_with.py PID WORDS...`, a program that the kernel kills when PID dies.

A program of its own, and nothing done between fork and exec: a task's process may have threads, and then only exec is safe there.
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
    """Let the kernel kill this process when its parent dies (on Linux), see that this has not happened yet, and run the words."""
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
