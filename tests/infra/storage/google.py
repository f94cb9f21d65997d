"""A bucket of fake-gcs-server, an emulator of Google Cloud Storage that others wrote in Go.

It lacks parts of the XML API, which obstore and delta-rs use: uploads, deletions, and listings that start after a name. `XmlApi`
before it translates the first two to the JSON API, and leaves out names of listings. Conditions are the emulator's own.
"""

import json
import re
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote
from uuid import uuid4
from xml.sax.saxutils import unescape

import httpx

from tests.infra.storage.go_build import built
from tests.infra.storage.quick_s3 import served

_BUCKET: Final = "tandem"
_START_S: Final = 120.0
_PASSED: Final = ("etag", "last-modified", "content-range", "content-length", "x-goog-generation")


@dataclass
class XmlApi:
    """The XML API of one bucket as a WSGI application, before an emulator whose client is `server`."""

    server: httpx.Client
    _uploads: dict[str, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    _numbers: Iterator[int] = field(default_factory=count)

    def __call__(self, environ: Any, start: Any) -> list[bytes]:
        """Answer one request."""
        query = {name: values[0] for name, values in parse_qs(environ["QUERY_STRING"], keep_blank_values=True).items()}
        name = environ["PATH_INFO"].removeprefix(f"/{_BUCKET}").removeprefix("/")
        content = environ["wsgi.input"].read()
        status, headers, body = self._answer(environ, name, query, content)
        if environ["REQUEST_METHOD"] != "HEAD":
            headers["content-length"] = str(len(body))
        start(f"{status} {httpx.codes.get_reason_phrase(status)}", list({"Content-Length": "0", **_titled(headers)}.items()))
        return [body]

    def _answer(self, environ: Any, name: str, query: Mapping[str, str], content: bytes) -> tuple[int, dict[str, str], bytes]:
        method, upload = environ["REQUEST_METHOD"], query.get("uploadId", "")
        if method == "POST" and "uploads" in query:
            found = f"<UploadId>{next(self._numbers)}</UploadId>"
            return 200, {}, f"<InitiateMultipartUploadResult>{found}</InitiateMultipartUploadResult>".encode()
        if method == "PUT" and upload:
            self._uploads[upload][int(query["partNumber"])] = content
            return 200, {"etag": f'"{query["partNumber"]}"'}, b""
        if method == "POST" and upload:
            whole = b"".join(part for _, part in sorted(self._uploads.pop(upload).items()))
            status, headers, body = self._create(name, whole, None)
            tag = headers.get("etag", "")
            return status, headers, f"<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>".encode()
        if method == "DELETE" and upload:
            self._uploads.pop(upload, None)
            return 204, {}, b""
        if method == "PUT":
            return self._create(name, content, environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH"))
        if method == "DELETE":
            answer = self.server.delete(f"/storage/v1/b/{_BUCKET}/o/{quote(unquote(name), safe='')}")
            return answer.status_code, {}, b""
        status, headers, body = self._request(method, environ)
        return status, headers, _after(body, query.get("start-after", "")) if "list-type" in query else body

    def _create(self, name: str, content: bytes, generation: str | None) -> tuple[int, dict[str, str], bytes]:
        """Put an object by the JSON API, if its generation is this one: 0 is an absent object's."""
        query = {"uploadType": "multipart", **({} if generation is None else {"ifGenerationMatch": generation})}
        between, described = uuid4().hex, json.dumps({"name": unquote(name)})
        kinds = (b"application/json", described.encode()), (b"application/octet-stream", content)
        parts = (b"--%s\r\nContent-Type: %s\r\n\r\n%s\r\n" % (between.encode(), kind, part) for kind, part in kinds)
        answer = self.server.post(
            f"/upload/storage/v1/b/{_BUCKET}/o",
            params=query,
            headers={"Content-Type": f"multipart/related; boundary={between}"},
            content=b"".join(parts) + f"--{between}--\r\n".encode(),
        )
        return answer.status_code, {"etag": answer.json().get("etag", "")}, b""

    def _request(self, method: str, environ: Any) -> tuple[int, dict[str, str], bytes]:
        headers = {"Host": "storage.googleapis.com", "Accept-Encoding": "identity"}
        if "HTTP_RANGE" in environ:
            headers["Range"] = environ["HTTP_RANGE"]
        answer = self.server.request(method, f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}", headers=headers)
        return answer.status_code, {name: answer.headers[name] for name in _PASSED if name in answer.headers}, answer.content


def _titled(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.title(): value for name, value in headers.items()}


def _after(listing: bytes, after: str) -> bytes:
    """A listing in the order of UTF-8, without the names up to `after`."""
    entries = re.findall("<Contents>.*?</Contents>", text := listing.decode(), re.DOTALL)
    names = {entry: unescape(re.findall("<Key>(.*?)</Key>", entry)[0], {"&#39;": "'", "&#34;": '"'}) for entry in entries}
    kept = sorted((entry for entry in entries if names[entry].encode() > after.encode()), key=lambda entry: names[entry].encode())
    first, last = text.find("<Contents>"), text.rfind("</Contents>")
    return listing if not entries else f"{text[:first]}{''.join(kept)}{text[last + len('</Contents>') :]}".encode()


@contextmanager
def google_bucket() -> Iterator[tuple[str, Mapping[str, str]]]:
    """The address of a prefix of an empty bucket, and the options with which a client reaches it."""
    server = built("fake_gcs", "github.com/fsouza/fake-gcs-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [server, "-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", str(port)]
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, limits=httpx.Limits(max_connections=None)) as client,
    ):
        try:
            _create_bucket(client)
            with served(XmlApi(client)) as address:
                account = Path(folder, "account.json")
                nobody = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
                account.write_text(json.dumps({"gcs_base_url": address, "disable_oauth": True, **nobody}))
                yield f"gs://{_BUCKET}/tables", {"google_service_account": str(account), "allow_http": "true"}
        finally:
            running.kill()


def _create_bucket(client: httpx.Client) -> None:
    """Create the bucket as soon as the server answers."""
    end = time.monotonic() + _START_S
    while True:
        try:
            client.post("/storage/v1/b", params={"project": "p"}, json={"name": _BUCKET}).raise_for_status()
        except httpx.TransportError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
