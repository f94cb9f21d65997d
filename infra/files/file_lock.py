"""A lock file that one process at a time holds; the file is never deleted."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock until the block ends, or the process does. The folder must exist.

    Raises BlockingIOError if another process has it and `wait` is False, and OSError.
    """
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
