"""Runs a command that must not outlive its parent: `pdeathsig.py PID WORDS...`; the kernel kills it when process PID dies.

It is a separate program because the parent has threads: then nothing but exec is safe between fork and exec. The kernel watches
the thread that started the child, so that thread must wait for it. dags/ has its own copy of this module, because it imports
nothing of the platform.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

NOT_FOUND: Final = 127
_PR_SET_PDEATHSIG: Final = 1


def command(words: Sequence[str]) -> list[str]:
    """The command that runs these words as a child that dies with this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *words]


def become(parent: int, words: Sequence[str]) -> None:
    """Ask the kernel to kill this process when its parent dies (on Linux), check that the parent lives, and run the words."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)
    try:
        os.execvp(words[0], list(words))  # noqa: S606 - our own command
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        sys.exit(NOT_FOUND)


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
