"""Limits of one statement."""

import resource
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

MIB: Final = 1 << 20
FILES_BY_DESCRIPTOR: Final = 128
"""The most descriptors of a process while it receives some; afterwards it can open none at all."""
_BEYOND_DUCKDB: Final = 128 * MIB
"""Memory of a process that DuckDB does not count against its limit: lists and sketches in Python, and rows being sent."""


class StatementLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one statement. Reaching a limit ends the statement with a sentence, and its process.

    | limit | meaning |
    | --- | --- |
    | `seconds` | wall-clock and CPU time from the moment at which the statement has its views; the same again for parsing it |
    | `memory` | bytes besides the views, which are shared and cost nothing |
    | `rows`, `bytes` | of the result |
    | `characters` | of the statement |
    | `at_once` | statements that run side by side; one more waits, at most `seconds` |
    """

    seconds: float = 10.0
    memory: int = 512 * MIB
    rows: int = 100_000
    bytes: int = 64 * MIB
    characters: int = 100_000
    at_once: int = 4


def arm(limits: StatementLimits) -> None:
    """Bound this process before it is given a statement: CPU, memory, files written, cores, processes, open files."""
    seconds = int(limits.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_BY_DESCRIPTOR, FILES_BY_DESCRIPTOR))
    _bound_memory(limits.memory + _BEYOND_DUCKDB)


def _bound_memory(room: int) -> None:
    """Allow this process `room` bytes more than it uses now; only on Linux."""
    if sys.platform != "linux":
        return
    lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    taken = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines) if rest.endswith("kB")}
    for bound, what in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        resource.setrlimit(bound, (taken[what] + room, resource.getrlimit(bound)[1]))


def start_clock(limits: StatementLimits) -> None:
    """Give the process this many seconds; then the kernel ends it by SIGALRM, even if its parent is gone."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds * 1.25 + 0.25)  # the parent, which has a sentence to say, comes first


def stop_clock() -> None:
    """Pause the time of the statement while the process waits for its views."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def make_room(size: int) -> None:
    """Allow this many more bytes of address space for the views, which do not count against the statement's memory."""
    most, hard = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_AS, (most + size, hard))


def close_off() -> None:
    """Forbid opening files, sockets and pipes."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
