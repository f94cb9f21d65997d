"""Spark's daemon that forks the Python workers of this machine, with what each of them needs already imported.

Forked workers share the imports' memory and do not spend their time. PySpark's own daemon leaves imports to each worker, because
some start threads, which a fork does not copy: those of OpenBLAS are not started here, and jemalloc starts its own again.
"""

import gc
import importlib
import os
import socket
import sys
from collections.abc import Callable
from typing import Final

from pyspark import daemon

_IMPORTED: Final = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "tandem.views.kernel.kernel",
    "tandem.views.project.project",
)


def main() -> None:
    """Import, then fork a worker whenever Spark asks; returns when its JVM ends."""
    # One task runs in a worker at a time, and one worker for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for module in _IMPORTED:
        importlib.import_module(module)
    # A collection in a worker would write to each of these objects, and so copy its page.
    gc.freeze()
    daemon.worker = sparing_imports(daemon.worker)  # type: ignore[assignment]  # the names of arguments differ
    daemon.manager()


def sparing_imports(work: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """A worker's next task, after which no collection visits what the task has imported.

    PySpark collects garbage between two tasks. With the modules of a fold that takes longer than many a task: 60 ms of 70.
    """
    imported = len(sys.modules)

    def worker(connection: socket.socket, authenticated: bool) -> int:  # noqa: FBT001 - PySpark's signature
        nonlocal imported
        code = work(connection, authenticated)
        if len(sys.modules) > imported:
            imported = len(sys.modules)
            gc.collect()
            gc.freeze()
        return code

    return worker


if __name__ == "__main__":
    main()
