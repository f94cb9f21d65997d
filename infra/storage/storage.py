"""The port: the operations that the platform needs from the storage of its tables.

A name is relative to the storage's root, with `/` between its parts, such as `views/sales/f00d/part-1.parquet`. It is taken
literally: `%2E` is three characters, and nothing is decoded. There are no folders: a name exists, or it does not.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

import pyarrow as pa

from tandem.views.errors import TandemError

_BLANK: Final = 32


class InvalidName(TandemError, code="storage-name-invalid"):
    """A name that could leave the root, or that two storages would take for different files."""


@dataclass(frozen=True)
class Head:
    """One file: name, size in bytes, time of writing (ms since 1970, UTC), and a tag that differs if another file replaces it."""

    name: str
    size: int
    written_ms: int
    tag: str


class Upload(Protocol):
    """A file that is being written. It exists when it is closed; until then it may exist in part.

    As a context manager it closes the file, or aborts it if the block raises.
    """

    stream: pa.NativeFile
    """Where its bytes go."""

    def close(self) -> int:
        """Make the file exist; returns its size in bytes. Raises OSError, after which the file may exist or not."""

    def abort(self) -> None:
        """Drop what was written; does nothing after `close`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.stream.closed:
            return
        if kind is None:
            self.close()
        else:
            self.abort()


class Readable(Protocol):
    """The operations of readers."""

    def open(self, name: str) -> pa.NativeFile:
        """The file, for reading at any position. Raises FileNotFoundError, OSError."""

    def head(self, name: str) -> Head | None:
        """What is known of a file without reading it; None if it does not exist. Raises OSError."""

    def list_after(self, prefix: str, after: str = "") -> Iterator[Head]:
        """The files whose names start with `prefix/`, in the order of their names as UTF-8, from beyond `after` on.

        An empty prefix is every file. A file that is written or deleted meanwhile may be listed or not. Raises OSError.
        """


class Storage(Readable, Protocol):
    """The operations of writers, who also read."""

    def create(self, name: str) -> Upload:
        """A new file, under a name that no other writer uses. Raises OSError."""

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Write a whole file unless the name exists; of several callers one succeeds. False if it exists. Raises OSError."""

    def delete_below(self, prefix: str) -> None:
        """Delete the files whose names start with `prefix/`. Raises OSError."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, ignoring names that do not exist. Raises OSError."""


def checked(name: str) -> str:
    """The name. Raises InvalidName if it is empty, absolute, or has an empty part, `.`, `..` or a control character."""
    parts = name.split("/")
    if not all(parts) or {".", ".."} & {*parts} or any(ord(character) < _BLANK for character in name):
        raise InvalidName(
            f"invalid file name {name!r}; expected parts with '/' between them, without '..' and control characters"
        )
    return name


ADVICE: Final = "check the credentials and their rights (docs/object-store.md, Options and credentials)"

# Listings, streams and delta-rs have the status in their text only. An expired token of Amazon's is 400 Bad Request.
_REFUSED: Final = re.compile(r"\b(401 Unauthorized|403 Forbidden)\b|<Code>(Expired|Invalid)Token</Code>")


def refused(error: BaseException) -> bool:
    """Whether the client's error, of obstore or delta-rs, is the store's answer to bad credentials or missing rights."""
    return _REFUSED.search(str(error)) is not None
