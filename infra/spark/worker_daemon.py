"""Spark's daemon that forks the Python workers of this machine, with what each of them needs already imported.

Forked workers share the imports' memory and do not spend their time. PySpark's own daemon leaves imports to each worker, because
some start threads, which a fork does not copy: those of OpenBLAS are not started here, and jemalloc starts its own again.
"""

import gc
import importlib
import os

from pyspark import daemon

_IMPORTED = ("pyspark.worker", "pyspark.sql.pandas.serializers", "views.kernel.kernel", "views.project.project")


def main() -> None:
    """Import, then fork a worker whenever Spark asks; returns when its JVM ends."""
    # One task runs in a worker at a time, and one worker for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for module in _IMPORTED:
        importlib.import_module(module)
    # A collection in a worker would write to each of these objects, and so copy its page.
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
