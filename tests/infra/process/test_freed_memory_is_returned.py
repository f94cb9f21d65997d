"""A process returns the memory that it frees, and tells its children to, unless the user's environment says otherwise."""

import os
import subprocess
import sys

import pytest

BLOCKS = """
import gc, os, sys
import pyarrow as pa
from tandem.infra.process.returned_memory import of_executors, return_freed_memory

def used():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon:")) >> 10

if sys.argv[1] == "returns":
    return_freed_memory()
before = used()
bytearray(30_000_000)  # freed, it would have malloc keep blocks of less than that, up to twice as much
blocks = [os.urandom(500_000) for _ in range(110)]
most = used()
del blocks
gc.collect()
print(most - before, used() - before, pa.default_memory_pool().backend_name, *map(os.environ.get, sys.argv[2:]))
if sys.argv[1] == "returns":
    assert of_executors() == {f"spark.executorEnv.{name}": os.environ[name] for name in sys.argv[2:]}
"""
NAMES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_ARENA_MAX", "ARROW_DEFAULT_MEMORY_POOL")


def told(which: str, **variables: str) -> tuple[int, int, list[str]]:
    """Megabytes that a process has more at its peak and at its end, its Arrow's allocator and its variables."""
    if not sys.platform.startswith("linux") or "glibc" not in os.confstr("CS_GNU_LIBC_VERSION"):
        pytest.skip("this system's malloc is not glibc's")
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    command = [sys.executable, "-c", BLOCKS, which, *NAMES]
    done = subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=True, timeout=300)
    most, end, *others = done.stdout.split()
    return int(most), int(end), others


def test_freed_memory_is_returned() -> None:
    most, end, others = told("returns")
    assert most > 45
    assert end < 10
    assert others == ["system", "131072", "2", "system"]
    most, end, others = told("keeps")  # else this test could not fail
    assert most > 45
    assert end > 45
    assert others[0] != "system"


def test_the_users_environment_comes_first() -> None:
    chosen = {"MALLOC_TRIM_THRESHOLD_": "90000000", "MALLOC_ARENA_MAX": "3", "ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}
    _, end, others = told("returns", MALLOC_TOP_PAD_="0", MALLOC_MMAP_THRESHOLD_="32000000", **chosen)
    assert end > 45
    assert others == ["mimalloc", *chosen.values()]
