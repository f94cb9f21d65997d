"""Files that are replaced atomically: a reader gets the old content or the new, whatever ends the writer."""

import os
from pathlib import Path


def replace(path: Path, content: bytes, *, private: bool = False, durable: bool = False) -> None:
    """Replace a file by a new file with this content. The folder must exist. Raises OSError.

    Args:
        private: the file has mode 0600; else the process's umask decides.
        durable: the content is on the disk afterwards. Else a crash of the machine may lose both the old and the new.
    """
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    mode = 0o600 if private else 0o666
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    new.replace(path)
    if durable:
        _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
