"""A folder of this machine as storage."""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from uuid import uuid4

import pyarrow as pa

from tandem.infra.storage.storage import Head, Upload, checked


@dataclass
class LocalUpload(Upload):
    """A file that is being written under its name; a killed writer leaves it in part."""

    path: Path
    stream: pa.NativeFile = field(init=False)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.stream = pa.OSFile(str(self.path), "wb")

    def close(self) -> int:
        """Close the file; its size in bytes."""
        self.stream.close()
        return self.path.stat().st_size

    def abort(self) -> None:
        """Delete what was written."""
        if not self.stream.closed:
            self.stream.close()
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Local:
    """The files below a folder, which need not exist."""

    root: str

    def open(self, name: str) -> pa.NativeFile:
        """The file, for reading at any position."""
        return pa.OSFile(self._path(name), "rb")

    def head(self, name: str) -> Head | None:
        """Size, time and tag of a file; None if it does not exist."""
        try:
            found = os.stat(self._path(name))  # noqa: PTH116  a poll of a table asks this twice, and Path doubles the time
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not S_ISREG(found.st_mode):
            return None
        return Head(name, found.st_size, found.st_mtime_ns // 1_000_000, f"{found.st_ino}-{found.st_mtime_ns}")

    def list_after(self, prefix: str, after: str = "") -> Iterator[Head]:
        """The files of a folder and of the folders in it, in the order of their names."""
        names = sorted(name for name in map(os.fsencode, self._names(prefix)) if name > os.fsencode(after))
        return (head for name in names if (head := self.head(os.fsdecode(name))) is not None)

    def _names(self, prefix: str) -> Iterator[str]:
        for place, _, files in os.walk(self._folder(prefix), onerror=_refuse):
            below = os.path.relpath(place, self.root)
            yield from files if below == "." else (f"{below}/{file}" for file in files)

    def create(self, name: str) -> LocalUpload:
        """A new file."""
        return LocalUpload(Path(self._path(name)))

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Write a whole file unless the name exists: a link to a finished file, which fails if the name exists."""
        path = Path(self._path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.new-{uuid4().hex}")
        try:
            unfinished.write_bytes(content)
            path.hardlink_to(unfinished)
        except FileExistsError:
            return False
        finally:
            unfinished.unlink(missing_ok=True)
        return True

    def delete_below(self, prefix: str) -> None:
        """Delete all that is in a folder, and the folders in it."""
        try:
            entries = list(os.scandir(self._folder(prefix)))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, onerror=lambda _, __, failed: _refuse(failed[1]))
            else:
                Path(entry.path).unlink(missing_ok=True)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, not the folders that they leave empty."""
        for name in names:
            Path(self._path(name)).unlink(missing_ok=True)

    def move(self, prefix: str, to: str) -> bool:
        """Rename a folder in one step; False if there is none. A folder alone can do that: the port does not have it."""
        place = Path(self._folder(to))
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            Path(self._folder(prefix)).rename(place)
        except FileNotFoundError:
            return False
        return True

    def _folder(self, prefix: str) -> str:
        return self._path(prefix) if prefix else self.root

    def _path(self, name: str) -> str:
        return f"{self.root}/{checked(name)}"


def _refuse(error: BaseException) -> None:
    """Ignore a missing folder, which has no files; raise the error of an unreadable folder."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
