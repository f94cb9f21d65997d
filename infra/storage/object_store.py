"""A bucket, or a prefix of one, as storage: S3 and what speaks its protocol, Google Cloud Storage and Azure, through obstore.

obstore wraps the client that delta-rs is built on, so both take the same options and find the same credentials. Conditional puts
are the store's own (`If-None-Match: *` on S3): a store without them must not be used.
"""

import atexit
import ctypes
import io
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from tandem.infra.storage.client_options import client_options
from tandem.infra.storage.storage import ADVICE, Head, Upload, checked, refused
from tandem.views.errors import TandemError

_PART_BYTES: Final = 8 << 20
"""Bytes of one part of an upload. A smaller file is put by one request."""


_opened_last: Final = deque[pa.NativeFile](maxlen=256)
"""The files opened last. Without it one of Arrow's threads may release the last reference to a file."""


@atexit.register
def _keep_opened() -> None:
    """Keep these files beyond the interpreter's end.

    A thread of Arrow that releases a file waits for the interpreter's lock; an interpreter that is ending answers by ending the
    thread, and with it, from within a destructor of C++, the process: SIGABRT after work that was done.
    """
    for file in _opened_last:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(file))


class StoreFailed(TandemError, OSError, code="store-failed"):
    """The store refused a request, or each repetition of it failed; the sentence says what the user can do."""


class _ObjectReader(io.RawIOBase):
    """An object, by one request for each range that is read."""

    def __init__(self, store: Any, name: str, size: int) -> None:
        super().__init__()
        self._store, self._name, self._size, self._at = store, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        if not length:
            return b""
        with _as_os_errors():
            content = bytes(obstore.get_range(self._store, self._name, start=self._at, length=length))
        self._at += len(content)
        return content


class _Writer(io.RawIOBase):
    """The stream of an upload; closing it is not completing the upload."""

    def __init__(self, upload: Any) -> None:
        super().__init__()
        self._upload, self.size = upload, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, content: Any) -> int:
        whole = bytes(content)
        with _as_os_errors():
            self._upload.write(whole)
        self.size += len(whole)
        return len(whole)


@dataclass
class ObjectUpload(Upload):
    """An object that exists when `close` has completed its upload.

    The parts of an abandoned upload of more than 8 MB stay in the bucket, invisible, until a lifecycle rule of it removes them.
    """

    store: Any = field(repr=False)
    name: str
    stream: pa.NativeFile = field(init=False)

    def __post_init__(self) -> None:
        self._upload = obstore.open_writer(self.store, self.name, buffer_size=_PART_BYTES)
        self._writer = _Writer(self._upload)
        self.stream = pa.PythonFile(self._writer, "w")

    def close(self) -> int:
        """Complete the upload; the object's size in bytes."""
        self.stream.close()
        with _as_os_errors():
            self._upload.close()
        return self._writer.size

    def abort(self) -> None:
        """Abandon the upload."""
        self.stream.close()


@dataclass(frozen=True)
class ObjectStore:
    """The objects below a URL such as `s3://bucket/prefix`; `options` are delta-rs's, credentials the environment's, too."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    _store: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = client_options(self.options)
        try:
            store = from_url(  # type: ignore[call-overload]  # its types know each store's own options only
                self.url,
                config=found.store,
                client_options=found.client,
                **({"retry_config": found.retry} if found.retry else {}),
            )
        except BaseError as error:
            raise TandemError(
                f"cannot use {self.url}: {_line(error).rstrip('.')}; set storage.options as delta-rs names them, and credentials "
                "in the environment (docs/object-store.md)"
            ) from None
        object.__setattr__(self, "_store", store)

    def open(self, name: str) -> pa.NativeFile:
        """The object, for reading at any position."""
        head = self.head(name)
        if head is None:
            raise FileNotFoundError(f"{self.url}/{name}")
        file = pa.PythonFile(_ObjectReader(self._store, name, head.size), "r")
        _opened_last.append(file)
        return file

    def head(self, name: str) -> Head | None:
        """Size, time and entity tag of an object; None if it does not exist."""
        try:
            with _as_os_errors():
                return _head(obstore.head(self._store, checked(name)))
        except FileNotFoundError:
            return None

    def list_after(self, prefix: str, after: str = "") -> Iterator[Head]:
        """The objects below a prefix, in the order of their names."""
        if prefix:
            checked(prefix)
        with _as_os_errors():
            for page in obstore.list(self._store, prefix or None, offset=after or None):
                # A store that does not know the offset lists all names.
                yield from (_head(found) for found in page if found["path"].encode() > after.encode())

    def create(self, name: str) -> ObjectUpload:
        """A new object."""
        return ObjectUpload(self._store, checked(name))

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Put a whole object unless the name exists, by one conditional request."""
        try:
            with _as_os_errors():
                obstore.put(self._store, checked(name), content, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    def delete_below(self, prefix: str) -> None:
        """Delete all objects below a prefix."""
        self.delete([head.name for head in self.list_after(prefix)])

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects, many with a request where the store can."""
        listed = [checked(name) for name in names]
        with suppress(FileNotFoundError), _as_os_errors():
            obstore.delete(self._store, listed)
            return
        for name in listed:  # a store that minds an object that does not exist
            with suppress(FileNotFoundError), _as_os_errors():
                obstore.delete(self._store, name)


def _head(found: Any) -> Head:
    tag = (found["e_tag"] or "").strip('"')  # a listing of Azure has no quotes
    return Head(found["path"], found["size"], int(found["last_modified"].timestamp() * 1000), tag)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise obstore's errors as a folder's: FileNotFoundError, FileExistsError, and StoreFailed with the first line."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(_line(error)) from error
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:  # a stream raises the second
        if refused(error):
            raise StoreFailed(f"the object store refused the credentials or their rights: {_line(error)}; {ADVICE}") from error
        raise StoreFailed(f"a request to the object store failed: {_line(error)}; run the command again") from error


def _line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
