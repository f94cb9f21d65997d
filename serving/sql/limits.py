"""What one statement may use and give."""

import resource
import signal
from typing import Final

import msgspec

from serving.sandbox.bounds import MIB, bound_files, bound_memory

_BEYOND_DUCKDB: Final = 128 * MIB
"""What a process takes beside what DuckDB counts against its limit: lists and sketches in Python, and rows on their way out."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one statement. A bound that is reached ends the statement with a sentence, and its process.

    `seconds` of wall clock, and of CPU, from the moment at which a statement has its views; the same again for reading it.
    `memory` in bytes beside the views, which are shared and cost nothing. `rows` and `bytes` of the result, `characters` of the
    statement. `at_once` statements run side by side; one more waits, at most `seconds`.
    """

    seconds: float = 10.0
    memory: int = 512 * MIB
    rows: int = 100_000
    bytes: int = 64 * MIB
    characters: int = 100_000
    at_once: int = 4


def arm(limits: Limits) -> None:
    """Bound this process before it is given a statement: CPU, memory, files written, cores, processes, open files."""
    seconds = int(limits.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    bound_memory(limits.memory + _BEYOND_DUCKDB)
    bound_files()


def start_clock(limits: Limits) -> None:
    """From now on the process has this many seconds: the kernel ends it by SIGALRM, whoever else may have gone by then."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds * 1.25 + 0.25)  # the parent, which has a sentence to say, comes first


def stop_clock() -> None:
    """While the process waits to be handed views, no time passes for the statement."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def make_room(size: int) -> None:
    """The views that are about to be mapped are this many bytes, which count against nothing that the statement may use."""
    most, hard = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_AS, (most + size, hard))


def close_off() -> None:
    """No file, socket or pipe can be opened from now on."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
