"""The folders of processes for Spark's checkpoints and large tables, in `speed` of the state folder; none is used twice."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tandem.infra.process import background

_FOLDER: Final = "speed"


def own_folder(state: Path) -> Path:
    """Create a folder for this process, and delete those of processes that have ended."""
    parent = state / _FOLDER
    parent.mkdir(parents=True, exist_ok=True)
    for folder, lives in folders(state):
        if not lives:
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))


def folders(state: Path) -> Iterator[tuple[Path, bool]]:
    """The existing folders, and whether the process of each is alive."""
    for folder in sorted((state / _FOLDER).glob("[0-9]*-*")):
        yield folder, bool(background.start_time(int(folder.name.partition("-")[0])))
