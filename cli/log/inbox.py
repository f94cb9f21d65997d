"""Where files to send appear: a folder, or a prefix of a bucket."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol, Self
from urllib.parse import urlparse

from tandem.cli.records.folder_files import hides_name, visible_files
from tandem.infra.settings.toml_tables.storage import OBJECT_STORES
from tandem.infra.storage.resolve import storage_at
from tandem.infra.storage.storage import Head, Storage, checked
from tandem.ledger.delta.watched_table import SELDOM_S
from tandem.views.errors import TandemError

Look = tuple[int, int]
"""The size of a file, and when it was changed last, in nanoseconds since 1970."""

_BLOCK: Final = 8 << 20
_COPY: Final = "copy"
"""The folder of the copy, within a folder that nobody else may read."""
_PLAIN_HTTP: Final = ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP")
"""Variables that allow an endpoint without TLS."""


class FileChanged(Exception):
    """The file has changed since it was listed, or is gone."""


class Inbox(Protocol):
    """The files of a place by name."""

    @property
    def every_s(self) -> float:
        """Seconds between two looks."""

    @property
    def appears_whole(self) -> bool:
        """Whether a file that is listed is complete; else once it has the same size and time in two looks."""

    def looks(self) -> Mapping[str, Look]:
        """The files by name, without those whose name, or a folder's, begins with a dot or underscore."""

    def local(self, name: str, look: Look) -> Path:
        """The file on this machine, until another one is asked for. Raises FileChanged."""

    def stays(self, name: str, look: Look) -> bool:
        """Whether the file on this machine is still what was listed."""

    def wording(self, text: str) -> str:
        """A sentence about a file on this machine as one about the file here."""


@dataclass(frozen=True)
class FolderInbox:
    """The files below a folder."""

    folder: Path
    every_s: float = 1.0
    appears_whole: bool = False

    def __str__(self) -> str:
        return str(self.folder)

    def looks(self) -> Mapping[str, Look]:
        """The files that are there now."""
        looks = ((str(path.relative_to(self.folder)), _look(path)) for path in visible_files(self.folder))
        return {name: look for name, look in looks if look is not None}

    def local(self, name: str, look: Look) -> Path:  # noqa: ARG002 - the file itself
        """The file itself, which may change meanwhile."""
        return self.folder / name

    def stays(self, name: str, look: Look) -> bool:
        """Whether it has the same size and time."""
        return _look(self.folder / name) == look

    def wording(self, text: str) -> str:
        """The sentence as it is."""
        return text


@dataclass
class BucketInbox:
    """The objects below an address such as `s3://bucket/prefix`, each copied to this machine while it is read.

    Use it in a `with`, which deletes the copy at its end. Raises StoreFailed.
    """

    address: str
    options: Mapping[str, str] = field(repr=False)
    every_s: float = SELDOM_S
    appears_whole: bool = True
    _storage: Storage = field(init=False, repr=False)
    _heads: dict[str, Head] = field(default_factory=dict, init=False, repr=False)
    _copied: tuple[str, Look] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._storage = storage_at(self.address, self.options)
        self._copies = TemporaryDirectory(prefix="tandem-feed-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._copies.cleanup()

    def __str__(self) -> str:
        return self.address

    def looks(self) -> Mapping[str, Look]:
        """The objects that are listed now; empty ones, with which some clients mark folders, are left out."""
        heads = self._storage.list_after("")
        self._heads = {head.name: head for head in heads if head.size and not hides_name(head.name)}
        return {name: (head.size, head.written_ms * 1_000_000) for name, head in self._heads.items()}

    def local(self, name: str, look: Look) -> Path:
        """A copy, which does not change."""
        path = Path(self._copies.name, _COPY, checked(name))
        if self._copied != (name, look):
            self._copied = None
            shutil.rmtree(Path(self._copies.name, _COPY), ignore_errors=True)
            path.parent.mkdir(parents=True)
            self._copy(self._heads[name], path)
            self._copied = name, look
        return path

    def stays(self, name: str, look: Look) -> bool:  # noqa: ARG002 - of a copy
        """It is a copy."""
        return True

    def wording(self, text: str) -> str:
        """The sentence with the object's address."""
        return text.replace(str(Path(self._copies.name, _COPY)), self.address.rstrip("/"))

    def _copy(self, listed: Head, path: Path) -> None:
        # Its ranges are read by requests of their own.
        self._expect(listed)
        try:
            with self._storage.open(listed.name) as stream, path.open("wb") as copy:
                while block := stream.read(_BLOCK):
                    copy.write(block)
        except FileNotFoundError as error:
            raise FileChanged from error
        self._expect(listed)

    def _expect(self, listed: Head) -> None:
        """Raise FileChanged for another object of the name; its time has milliseconds in listings alone."""
        head = self._storage.head(listed.name)
        if head is None or (head.size, head.tag) != (listed.size, listed.tag):
            raise FileChanged


def bucket_options(environ: Mapping[str, str], options: Mapping[str, str]) -> Mapping[str, str]:
    """The options of a bucket's client: the settings', and those of the environment that it does not read there itself."""
    return {**{name.lower(): environ[name] for name in _PLAIN_HTTP if name in environ}, **options}


def bucket_address(text: str) -> str | None:
    """The address of a bucket's prefix, such as `s3://bucket/prefix`; None for another text. Raises TandemError."""
    parts = urlparse(text)
    if parts.scheme not in OBJECT_STORES or not text.startswith(f"{parts.scheme}://"):
        return None
    if not parts.netloc or parts.query or parts.fragment:
        raise TandemError(f"{text}: expected a bucket, and a prefix in it, such as s3://bucket/prefix", code="usage-invalid")
    return text.rstrip("/")


def _look(path: Path) -> Look | None:
    """The size of a file, and when it was changed last; None if it is gone."""
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_size, status.st_mtime_ns
    return None
