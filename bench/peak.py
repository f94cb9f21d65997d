"""The most memory that this process has had."""

import resource
import sys
from pathlib import Path


def peak() -> int:
    """In bytes. Linux is asked for its own; getrusage tells what the process that it was forked from had, if that is more."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024
