"""A bucket of an S3 server on loopback, with credentials that the server does not check, and with faults on demand."""

import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from cli.demo.s3_server import Application, bucket

_ERROR: Final = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>a planned fault</Message></Error>'
REFUSALS: Final = {"slow down": ("503 Slow Down", "SlowDown"), "conflict": ("409 Conflict", "ConditionalRequestConflict")}
FAULTS: Final = (*REFUSALS, "reset before", "reset after", "cut short")


class _Reset(Exception):
    """The connection is gone; the server's thread has nothing more to do."""


@dataclass
class Faults:
    """A proxy before a bucket: it counts the requests of some methods, and does `fault` to request `at` of them (from 1).

    | fault | what the client sees | takes effect |
    | --- | --- | --- |
    | `slow down` | 503 | no |
    | `conflict` | 409 to a conditional put, which asks to try again; else as `slow down` | no |
    | `reset before`, `reset after` | a connection that is closed without an answer | no; yes |
    | `cut short` | half of the answer's body | yes |
    """

    requests: list[str] = field(default_factory=list)
    methods: tuple[str, ...] = ()
    at: int = 0
    fault: str = ""
    _count: Lock = field(default_factory=Lock)

    def plan(self, fault: str, at: int, methods: tuple[str, ...]) -> None:
        """Count from here on, and do this to the request of that number among those of the methods."""
        with self._count:
            self.requests.clear()
            self.fault, self.at, self.methods = fault, at, methods

    def around(self, store: Application) -> Application:
        """The store behind the proxy."""

        def proxy(environ: Any, start: Any) -> Iterable[bytes]:
            if environ["REQUEST_METHOD"] not in self.methods:
                return store(environ, start)
            with self._count:
                self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
                due = len(self.requests) == self.at
            return self._injured(store, environ, start) if due else store(environ, start)

        return proxy

    def _injured(self, store: Application, environ: Any, start: Any) -> Iterable[bytes]:
        if self.fault in REFUSALS:
            conditional = "HTTP_IF_NONE_MATCH" in environ
            status, code = REFUSALS[self.fault if conditional else "slow down"]
            body = _ERROR.format(code=code).encode()
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body]
        if self.fault != "reset before":
            whole = b"".join(store(environ, start))
            if self.fault == "cut short":
                return [whole[: len(whole) // 2]]
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise _Reset


@contextmanager
def a_bucket(faults: Faults | None = None) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The URL of an empty bucket and all options with which a client reaches it."""
    with bucket(*([] if faults is None else [faults.around])) as (url, options):
        yield url, {**options, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
