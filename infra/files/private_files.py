"""Files and folders that only their owner may read."""

import os
import stat
from pathlib import Path
from typing import TextIO

from tandem.infra.files import atomic_files
from tandem.views.errors import TandemError

_MODE = 0o700


class SharedFolder(TandemError, code="folder-not-private"):
    """Other users can write to a folder that must be private."""


def folder(path: Path) -> Path:
    """The folder, made with mode 0700 where there is none; an existing folder is left as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_MODE, exist_ok=True)
    return path


def narrow(path: Path) -> int | None:
    """Create the folder with mode 0700, or narrow it to that. Returns the wider mode that it had; None if it was not wider.

    Raises SharedFolder for a folder of another user, unless this one is root, and for a folder with the sticky bit, such as /tmp,
    which is public on purpose.
    """
    told = folder(path).stat()
    mode = stat.S_IMODE(told.st_mode)
    if not mode & 0o077:
        return None
    if mode & stat.S_ISVTX or os.geteuid() not in (0, told.st_uid):
        raise SharedFolder(
            f"the state folder {path} is shared with other users (mode {mode:04o}, owner {told.st_uid}), but it contains "
            "secrets; set `state` to a folder of your own"
        )
    path.chmod(_MODE)
    return mode


def opened(path: Path) -> TextIO:
    """Open a new file of mode 0600 that replaces an old one."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8")


def write(path: Path, text: str) -> None:
    """Replace a file atomically by one of mode 0600 with this text."""
    atomic_files.replace(path, text.encode("utf-8"), private=True)
