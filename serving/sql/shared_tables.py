"""Arrow tables in memory that processes share: written once, then read by every statement that names them, without a copy."""

import fcntl
import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

_ROWS: Final = 1 << 17
"""Rows of a batch: what DuckDB reads at once, and few enough that a small result ends soon."""


@dataclass(frozen=True)
class SharedTables:
    """A table that other processes can map; `file` is a descriptor that holds `size` bytes, closed with this value."""

    schema: pa.Schema
    file: int
    size: int
    _open: list[int] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._open.append(self.file)

    def close(self) -> None:
        """Release the memory, as soon as no process maps it any more."""
        while self._open:
            os.close(self._open.pop())

    def __del__(self) -> None:
        self.close()


def share(table: pa.Table) -> SharedTables:
    """A copy of the table in shared memory, which nobody can change."""
    with _fresh() as (writing, reading):
        with os.fdopen(writing, "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table, max_chunksize=_ROWS)
        if sys.platform == "linux":
            fcntl.fcntl(
                reading, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
            )
        return SharedTables(table.schema, os.dup(reading), os.fstat(reading).st_size)


def mapped(file: int) -> pa.Table:
    """The table in a descriptor, mapped without a copy; the descriptor is closed, the mapping stays."""
    try:
        memory = mmap.mmap(file, 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
    finally:
        os.close(file)
    return pa.ipc.open_stream(pa.py_buffer(memory)).read_all()


@contextmanager
def _fresh() -> Iterator[tuple[int, int]]:
    """Two descriptors of one anonymous file: one to write with, which the caller closes, and one to read with."""
    if sys.platform == "linux":
        reading = os.memfd_create("view", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        writing = os.dup(reading)
    else:
        writing, path = tempfile.mkstemp()
        reading = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        Path(path).unlink()
    try:
        yield writing, reading
    finally:
        os.close(reading)
