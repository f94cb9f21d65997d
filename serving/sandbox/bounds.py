"""Limits of a process that the kernel enforces: memory, files, cores."""

import resource
import sys
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
FILES_BY_DESCRIPTOR: Final = 128
"""The most descriptors of a process while it receives some; afterwards it can open none at all."""


def bound_memory(room: int) -> None:
    """Allow this process `room` bytes more than it uses now; only on Linux."""
    if sys.platform != "linux":
        return
    lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    taken = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines) if rest.endswith("kB")}
    for bound, what in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        resource.setrlimit(bound, (taken[what] + room, resource.getrlimit(bound)[1]))


def bound_files() -> None:
    """Forbid this process to write files and cores, and to hold more than a few descriptors."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_BY_DESCRIPTOR, FILES_BY_DESCRIPTOR))
