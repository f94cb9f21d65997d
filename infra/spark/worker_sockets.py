"""Unix sockets for Spark's JVM and its Python workers on this machine.

Over TCP a task waits twice for 40 ms: of two small writes, Nagle's algorithm holds back the second one until the other side has
acknowledged the first, and that side delays it. Over Unix sockets a job of six empty tasks takes a third of the time.

Spark asks for no secret on these sockets, so they are in a folder that only this user may enter.
"""

import atexit
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from infra.files import temporary_folder

ENABLED: Final = "spark.python.unix.domain.socket.enabled"
_FOLDER: Final = "spark.python.unix.domain.socket.dir"
_NAME: Final = "/.00000000-0000-0000-0000-000000000000.sock"
"""As long as the names that Spark gives."""
_MOST: Final = 103
"""The bytes that every system allows in the address of such a socket."""
_held: Final = ExitStack()
atexit.register(_held.close)


def properties() -> dict[str, str]:
    """The properties of a new JVM, whose sockets are in a folder of their own until this process ends.

    Empty, so that Spark uses TCP, where the folder for temporary files has too long a path or cannot be written to.
    """
    try:
        folder = _held.enter_context(temporary_folder.held("tandem-spark-"))
    except OSError:
        return {}
    return {ENABLED: "true", _FOLDER: str(folder)} if fits(folder) else {}


def fits(folder: Path) -> bool:
    """Whether addresses of sockets in the folder are short enough."""
    return len(os.fsencode(folder)) + len(_NAME) <= _MOST
