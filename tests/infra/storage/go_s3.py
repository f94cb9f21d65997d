"""A third S3 server, which keeps objects as files and is used in production: versitygw. It checks signatures."""

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from werkzeug.wrappers import Request

from tandem.cli.demo.s3_server import Application, served
from tandem.infra.process.ports import HOST, free, unused
from tests.infra.storage.go_build import built
from tests.infra.storage.s3 import CREDENTIALS

_BUCKET = "tandem"
_OF_THE_CONNECTION = ("connection", "transfer-encoding", "date", "server")


@contextmanager
def go_bucket() -> Iterator[tuple[str, Mapping[str, str]]]:
    """The address of a prefix of an empty bucket, and the options with which a client reaches it, as `s3_server.bucket`."""
    server = built("versitygw", "github.com/versity/versitygw/cmd/versitygw")
    with TemporaryDirectory() as folder:
        Path(folder, _BUCKET).mkdir()  # a folder in the server's folder is a bucket
        port = unused()
        keys = dict(zip(("ROOT_ACCESS_KEY", "ROOT_SECRET_KEY"), CREDENTIALS.values(), strict=True))
        command = [server, "--port", f"{HOST}:{port}", "--quiet", "posix", folder]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **keys}
        ) as running:
            try:
                while free(port):
                    assert running.poll() is None
                    time.sleep(0.05)
                options = {"aws_endpoint_url": f"http://{HOST}:{port}", "aws_region": "us-east-1", "aws_allow_http": "true"}
                yield f"s3://{_BUCKET}/tables", options
            finally:
                running.kill()


@contextmanager
def go_bucket_behind(around: Callable[[Application], Application]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The same bucket with an application between it and its clients."""
    with go_bucket() as (url, options), httpx.Client(base_url=options["aws_endpoint_url"], timeout=60) as client:

        def forwarded(environ: Any, start: Any) -> Iterable[bytes]:
            asked = Request(environ)
            headers = dict(asked.headers)  # the client has signed them, and `Host` with them
            path = environ["RAW_URI"]  # as the client has encoded it
            answer = client.request(asked.method, path, headers=headers, content=asked.get_data())
            kept = [(name, value) for name, value in answer.headers.items() if name not in _OF_THE_CONNECTION]
            start(f"{answer.status_code} {answer.reason_phrase}", kept)
            return [answer.content]

        with served(around(forwarded)) as address:
            yield url, {**options, "aws_endpoint_url": address}
