"""The peak memory of this process."""

import resource
import sys
from pathlib import Path


def peak() -> int:
    """The peak in bytes. From Linux's /proc, because getrusage includes the peak of the process that it was forked from."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024
