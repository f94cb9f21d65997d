"""Bounds that the kernel keeps of a process: memory, files, cores."""

import resource
import sys
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
FILES_BY_DESCRIPTOR: Final = 128
"""How many descriptors a process may hold while it is handed some; afterwards it can open none at all."""


def bound_memory(room: int) -> None:
    """From now on this process may take `room` bytes more than it has taken; only on Linux."""
    if sys.platform != "linux":
        return
    lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    taken = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines) if rest.endswith("kB")}
    for bound, what in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        resource.setrlimit(bound, (taken[what] + room, resource.getrlimit(bound)[1]))


def bound_files() -> None:
    """From now on this process writes no file and no core, and holds few descriptors."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_BY_DESCRIPTOR, FILES_BY_DESCRIPTOR))
