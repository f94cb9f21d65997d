"""Unix sockets for Spark's JVM and its Python workers on this machine.

Over TCP a task waits twice for 40 ms: of two small writes, Nagle's algorithm holds back the second one until the other side has
acknowledged the first, and that side delays it. Over Unix sockets a job of six empty tasks takes a third of the time.

Only workers get them. To the driver's Python, Spark sends each result over a socket of its own, and Java remembers the path of
such a socket for as long as it runs: a speed layer would fill the heap in some weeks.

Spark asks for no secret on these sockets, so they are in a folder that only this user may enter.
"""

import atexit
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pyspark import SparkContext

from tandem.infra.files import temporary_folder

ENABLED: Final = "spark.python.unix.domain.socket.enabled"
FOLDER: Final = "spark.python.unix.domain.socket.dir"
_NAME: Final = "/.00000000-0000-0000-0000-000000000000.sock"
"""As long as the names that Spark gives."""
_MOST: Final = 103
"""The bytes that every system allows in the address of such a socket."""
_held: Final = ExitStack()
atexit.register(_held.close)


def properties(given: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new JVM, whose sockets are in a folder of their own until this process ends.

    Empty where the properties that are given turn the sockets off or name a folder, and where no socket can be in a folder for
    temporary files.
    """
    if given.get(ENABLED, "").lower() == "false" or FOLDER in given:
        return {}
    try:
        folder = _held.enter_context(temporary_folder.held("tandem-spark-"))
        return {FOLDER: str(folder)} if _takes_sockets(folder) else {}
    except OSError:
        return {}


def connect_workers(context: SparkContext) -> None:
    """Connect the workers of a context by Unix sockets, if it has a folder for them. No worker may have started."""
    conf = context._jsc.sc().env().conf()  # noqa: SLF001 - Spark asks this one when it starts a worker
    if not conf.contains(FOLDER) or conf.contains(ENABLED):
        return
    # Spark decides at the first result, for as long as it runs, how results come.
    context.emptyRDD().collect()
    conf.set(ENABLED, "true")


def fits(folder: Path) -> bool:
    """Whether addresses of sockets in the folder are short enough."""
    return len(os.fsencode(folder)) + len(_NAME) <= _MOST


def _takes_sockets(folder: Path) -> bool:
    """Raises OSError where the file system has no sockets."""
    if not fits(folder):
        return False
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder) + _NAME)
    Path(str(folder) + _NAME).unlink()
    return True
