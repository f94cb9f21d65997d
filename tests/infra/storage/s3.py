"""A bucket of an S3 server on loopback, with credentials that the server does not check, and with faults on demand."""

import ctypes
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, get_ident
from typing import Any, Final

from tandem.cli.demo.s3_server import Application, bucket
from tests.killed import Killed

CREDENTIALS: Final = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
_ERROR: Final = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>a planned fault</Message></Error>'
_CONFLICT: Final = ("409 Conflict", "ConditionalRequestConflict")
_TAKEN: Final = ("412 Precondition Failed", "PreconditionFailed")
_SLOW_DOWN: Final = ("503 Slow Down", "SlowDown")
_GONE: Final = ("403 Forbidden", "AccessDenied")
REFUSALS: Final = {"slow down": _SLOW_DOWN, "conflict": _CONFLICT, "taken before": _TAKEN, "taken after": _TAKEN}
FAULTS: Final = (
    *REFUSALS,
    *("reset before", "reset after", "cut short", "time out before", "time out after", "killed before", "killed after"),
)
WRITES: Final = ("PUT", "POST", "DELETE")
READS: Final = ("GET", "HEAD")
_WAITS_S: Final = 60.0


class _Reset(Exception):
    """The connection is gone; the server's thread has nothing more to do."""


@dataclass
class Faults:
    """A proxy before a bucket: it numbers the requests of some methods from 1, and does `fault` to those that are due.

    | fault | what the client sees | takes effect |
    | --- | --- | --- |
    | `slow down` | 503 | no |
    | `conflict` | 409 to a conditional put, which asks to try again; else as `slow down` | no |
    | `taken before`, `taken after` | 412 to a conditional put, as if another writer had the name; else as `slow down` | no; yes |
    | `reset before`, `reset after` | a connection that is closed without an answer | no; yes |
    | `cut short` | half of the answer's body | yes |
    | `time out before`, `time out after` | no answer until the client gives up | no; yes |
    | `killed before`, `killed after` | nothing: its thread raises Killed, and the store refuses what still arrives | no; yes |

    A repeated write is not numbered again, so that the numbers are those of a run without faults. `injured` has the numbers of
    the requests that met their fault.
    """

    requests: list[str] = field(default_factory=list)
    injured: list[int] = field(default_factory=list)
    methods: tuple[str, ...] = ()
    fault: str = ""
    due: Callable[[int], bool] = lambda _: False
    killed: bool = False
    _client: int = 0
    _repeated: bool = False
    _known: set[str] = field(default_factory=set)
    _count: Lock = field(default_factory=Lock)

    def plan(self, fault: str, methods: tuple[str, ...], due: Callable[[int], bool], *, repeated: bool = False) -> None:
        """Number from here on, for the client that is this thread; with `repeated`, also each repeated write."""
        with self._count:
            self.requests, self.injured, self._known = [], [], set()
            self.fault, self.methods, self.due, self.killed, self._client = fault, methods, due, False, get_ident()
            self._repeated = repeated

    def rest(self) -> None:
        """Number and injure nothing until the next plan; a client that was killed is another one."""
        with self._count:
            self.methods, self.killed = (), False

    def around(self, store: Application) -> Application:
        """The store behind the proxy."""

        def proxy(environ: Any, start: Any) -> Iterable[bytes]:
            if self.killed:
                return _refuse(environ, start, _GONE)
            return self._injured(store, environ, start) if self._due(environ) else store(environ, start)

        return proxy

    def _due(self, environ: Any) -> bool:
        method = environ["REQUEST_METHOD"]
        with self._count:
            if method not in self.methods:
                return False
            request = f"{method} {environ['PATH_INFO']}"
            if method == "PUT" and request in self._known and not self._repeated:
                return False
            self._known.add(request)
            self.requests.append(request)
            if self.due(len(self.requests)):
                self.injured.append(len(self.requests))
                return True
            return False

    def _injured(self, store: Application, environ: Any, start: Any) -> Iterable[bytes]:
        fault, effect = self.fault, not self.fault.endswith(" before")
        conditional = "HTTP_IF_NONE_MATCH" in environ
        if fault in REFUSALS:
            if fault == "taken after" and conditional:
                b"".join(store(environ, lambda *_: None))
            return _refuse(environ, start, REFUSALS[fault] if conditional else _SLOW_DOWN)
        if fault.startswith("killed"):
            if effect:
                b"".join(store(environ, lambda *_: None))
            with self._count:
                self.killed = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._client), ctypes.py_object(Killed))
            return _refuse(environ, start, _GONE)
        if effect:
            whole = b"".join(store(environ, start))
            if fault == "cut short":
                return [whole[: len(whole) // 2]]
        connection = environ["werkzeug.socket"]
        if fault.startswith("time out"):
            connection.settimeout(_WAITS_S)
            connection.recv(1)
        connection.shutdown(socket.SHUT_RDWR)
        raise _Reset


def _refuse(environ: Any, start: Any, answer: tuple[str, str]) -> Iterable[bytes]:
    status, code = answer
    body = _ERROR.format(code=code).encode()
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


@dataclass
class Refusing:
    """A proxy before a bucket that answers each request with one error, after `delay_s`, and counts them in `requests`."""

    status: str
    code: str = "Refused"
    delay_s: float = 0.0
    requests: int = 0

    def around(self, _: Application) -> Application:
        """The application to which clients speak."""

        def answer(environ: Any, start: Any) -> list[bytes]:
            self.requests += 1
            time.sleep(self.delay_s)
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            body = _ERROR.format(code=self.code).encode()
            start(self.status, [("Content-Length", str(len(body)))])
            return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

        return answer


@contextmanager
def a_bucket(faults: Faults | Refusing | None = None, *, of: Any = bucket) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The URL of an empty bucket and all options with which a client reaches it, in moto's server or another one."""
    with of(*([] if faults is None else [faults.around])) as (url, options):
        yield url, {**options, **(CREDENTIALS if url.startswith("s3:") else {})}
