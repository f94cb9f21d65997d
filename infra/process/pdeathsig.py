"""What becomes a child that must not outlive its parent: `pdeathsig.py PID WORDS...`, which the kernel kills when PID dies.

A program of its own, and nothing done between fork and exec: the parent has threads, and then only exec is safe there. The kernel
looks at the thread that started it, so that one has to wait for it. What orders commands from elsewhere has its own copy of this
(dags/): it imports nothing of the platform.
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
        os.execvp(words[0], list(words))  # noqa: S606 - our own command
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        sys.exit(NOT_FOUND)


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
