"""A process that lives long and has peaks of memory returns what it frees to the system."""

import ctypes
import os
from typing import Final

import pyarrow as pa

TRIM: Final = "MALLOC_TRIM_THRESHOLD_", "131072"
"""Free bytes at the top of malloc's heap from which on they are returned; named, it does not grow with large allocations."""
ARENAS: Final = "MALLOC_ARENA_MAX", "2"
"""At most two arenas of malloc: threads do not keep freed memory to themselves."""
POOL: Final = "ARROW_DEFAULT_MEMORY_POOL", "system"
"""Arrow's memory comes from malloc, too: its own allocator keeps what is freed."""
_PARAMETERS: Final = {TRIM: -1, ARENAS: -8}
"""Their numbers in glibc's malloc.h."""


def return_freed_memory() -> None:
    """Let this process and its children return freed memory, except where a variable of the environment says otherwise.

    It changes this process's malloc only with glibc. What Arrow allocates without being told where, for `group_by` and `join`,
    stays in the allocator that it chose when it was imported; in children it does not.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    for variable, number in _PARAMETERS.items():
        name, value = variable
        if name not in os.environ and mallopt is not None:
            mallopt(number, int(value))
        os.environ.setdefault(name, value)
    if POOL[0] not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
        os.environ[POOL[0]] = POOL[1]


def of_executors() -> dict[str, str]:
    """The same variables as properties of Spark: executors on other machines do not inherit them. After `return_freed_memory`."""
    return {f"spark.executorEnv.{name}": os.environ[name] for name, _ in (TRIM, ARENAS, POOL)}
