"""A second S3 server on loopback, in memory: quick, since it has only what clients of tables need, and keeps its word on puts.

A request takes a tenth of the time that moto takes, so that sweeps of whole runs are affordable. No multipart uploads, no
credentials, one bucket for each server.
"""

import hashlib
import socketserver
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from io import BytesIO
from threading import Lock, Thread
from typing import Any, Final
from urllib.parse import parse_qs, unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from tandem.cli.demo.s3_server import Application

_BUCKET: Final = "quick"
_PAGE: Final = 1000


@dataclass(frozen=True)
class Stored:
    """An object."""

    content: bytes
    tag: str
    at: datetime


class Refused(Exception):
    """The answer is an error: its status and its code."""


@dataclass
class QuickS3:
    """A bucket as a WSGI application."""

    objects: dict[str, Stored] = field(default_factory=dict)
    _one: Lock = field(default_factory=Lock)
    _tags: int = 0

    def __call__(self, environ: Any, start: Any) -> list[bytes]:
        """Answer one request."""
        key = unquote(environ["PATH_INFO"].removeprefix(f"/{_BUCKET}").removeprefix("/"))
        query = {name: values[0] for name, values in parse_qs(environ["QUERY_STRING"], keep_blank_values=True).items()}
        content = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        try:
            with self._one:
                status, headers, body = self._answer(environ, key, query, content)
        except Refused as refused:
            status, code = refused.args
            headers, body = {}, f"<Error><Code>{code}</Code><Message>refused</Message></Error>".encode()
        start(status, list({"Content-Length": str(len(body)), **headers}.items()))
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    def _answer(self, environ: Any, key: str, query: Mapping[str, str], content: bytes) -> tuple[str, dict[str, str], bytes]:
        method = environ["REQUEST_METHOD"]
        if method == "GET" and "list-type" in query:
            return "200 OK", {}, self._list(query)
        if method in ("GET", "HEAD"):
            return self._get(key, environ.get("HTTP_RANGE"))
        if method == "PUT" and not query:
            return self._put(key, content, absent=environ.get("HTTP_IF_NONE_MATCH") == "*")
        if method == "POST" and "delete" in query:
            names = [one.text or "" for one in ET.fromstring(content).iter() if one.tag.rpartition("}")[2] == "Key"]
            for name in names:
                self.objects.pop(name, None)
            found = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
            return "200 OK", {}, f"<DeleteResult>{found}</DeleteResult>".encode()
        if method == "DELETE":
            self.objects.pop(key, None)
            return "204 No Content", {}, b""
        raise Refused("501 Not Implemented", "NotImplemented")

    def _get(self, key: str, ranged: str | None) -> tuple[str, dict[str, str], bytes]:
        found = self.objects.get(key)
        if found is None:
            raise Refused("404 Not Found", "NoSuchKey")
        headers = {"ETag": found.tag, "Last-Modified": format_datetime(found.at, usegmt=True)}
        if ranged is None:
            return "200 OK", headers, found.content
        first, _, last = ranged.removeprefix("bytes=").partition("-")
        size = len(found.content)
        start = int(first) if first else size - int(last)
        end = min(size, int(last) + 1) if first and last else size
        return "206 Partial Content", {**headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"}, found.content[start:end]

    def _put(self, key: str, content: bytes, *, absent: bool) -> tuple[str, dict[str, str], bytes]:
        if absent and key in self.objects:
            raise Refused("412 Precondition Failed", "PreconditionFailed")
        self._tags += 1
        tag = f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}-{self._tags}"'
        self.objects[key] = Stored(content, tag, datetime.now(UTC))
        return "200 OK", {"ETag": tag}, b""

    def _list(self, query: Mapping[str, str]) -> bytes:
        prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", "")
        delimiter = query.get("delimiter", "")
        names = sorted((name for name in self.objects if name.startswith(prefix)), key=str.encode)
        folders = {
            name[: name.index(delimiter, len(prefix)) + 1] for name in names if delimiter and delimiter in name[len(prefix) :]
        }
        entries = sorted({name for name in names if not any(map(name.startswith, folders))} | folders, key=str.encode)
        left = [name for name in entries if name.encode() > after.encode()]
        page = left[:_PAGE]
        found = "".join(self._entry(name) for name in page)
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(left) > len(page) else ""
        truncated = "true" if more else "false"
        return (
            f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>{truncated}</IsTruncated>{more}{found}'
            "</ListBucketResult>"
        ).encode()

    def _entry(self, name: str) -> str:
        stored = self.objects.get(name)
        if stored is None:
            return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
        at = stored.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return (
            f"<Contents><Key>{escape(name)}</Key><LastModified>{at}</LastModified><ETag>{escape(stored.tag)}</ETag>"
            f"<Size>{len(stored.content)}</Size></Contents>"
        )


def _handler(application: Application) -> type[socketserver.StreamRequestHandler]:
    class Connection(socketserver.StreamRequestHandler):
        """One connection of HTTP/1.1, as long as the client keeps it."""

        wbufsize = -1
        disable_nagle_algorithm = True

        def handle(self) -> None:
            with suppress(OSError):
                while self._one():
                    pass

        def _one(self) -> bool:
            line = self.rfile.readline().decode("ascii").split()
            if len(line) != 3:
                return False
            path, _, query = line[1].partition("?")
            environ: dict[str, Any] = {"REQUEST_METHOD": line[0], "PATH_INFO": path, "QUERY_STRING": query}
            while (header := self.rfile.readline().decode("latin-1").rstrip("\r\n")) != "":
                name, _, value = header.partition(":")
                name = name.upper().replace("-", "_")
                environ[name if name == "CONTENT_LENGTH" else f"HTTP_{name}"] = value.strip()
            body = BytesIO(self.rfile.read(int(environ.get("CONTENT_LENGTH") or 0)))
            environ |= {"wsgi.input": body, "werkzeug.socket": self.connection}

            announced = 0

            def start(status: str, headers: list[tuple[str, str]]) -> None:
                nonlocal announced
                announced = int(dict(headers)["Content-Length"])
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
                self.wfile.write(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1"))

            content = b"".join(application(environ, start))
            self.wfile.write(content)
            self.wfile.flush()
            return line[0] == "HEAD" or len(content) == announced

    return Connection


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: tests cut connections on purpose."""


@contextmanager
def quick_bucket(
    around: Callable[[Application], Application] = lambda store: store,
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The address of a prefix of an empty bucket, and the options with which a client reaches it, as `s3_server.bucket`."""
    with served(around(QuickS3())) as address:
        yield (
            f"s3://{_BUCKET}/tables",
            {"aws_endpoint_url": address, "aws_region": "us-east-1", "aws_allow_http": "true"},
        )


@contextmanager
def served(application: Application) -> Iterator[str]:
    """The address of a server on loopback that answers as the application does."""
    server = _Server(("127.0.0.1", 0), _handler(application))
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
