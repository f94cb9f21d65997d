"""A third S3 server, written by others in Go: gofakes3."""

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any

import httpx
from werkzeug.wrappers import Request

from tandem.cli.demo.s3_server import Application, served
from tests.infra.storage.go_build import built

_BUCKET = "go"
_OF_THE_CONNECTION = ("connection", "transfer-encoding", "date", "server")


@contextmanager
def go_bucket() -> Iterator[tuple[str, Mapping[str, str]]]:
    """The address of a prefix of an empty bucket, and the options with which a client reaches it, as `s3_server.bucket`."""
    server = built("gofakes3", "github.com/johannesboyne/gofakes3/cmd/gofakes3")
    command = [server, "-backend", "memory", "-initialbucket", _BUCKET, "-host", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        try:
            port = next(line.rpartition(" ")[2].strip() for line in running.stderr if "using port:" in line)
            Thread(target=running.stderr.read, daemon=True).start()
            options = {"aws_endpoint_url": f"http://127.0.0.1:{port}", "aws_region": "us-east-1", "aws_allow_http": "true"}
            yield f"s3://{_BUCKET}/tables", options
        finally:
            running.kill()


@contextmanager
def go_bucket_behind(around: Callable[[Application], Application]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The same bucket with an application between it and its clients."""
    with go_bucket() as (url, options), httpx.Client(base_url=options["aws_endpoint_url"], timeout=60) as client:

        def forwarded(environ: Any, start: Any) -> Iterable[bytes]:
            asked = Request(environ)
            headers = {name: value for name, value in asked.headers if name != "Host"}
            path = environ["RAW_URI"]  # as the client has encoded it
            answer = client.request(asked.method, path, headers=headers, content=asked.get_data())
            kept = [(name, value) for name, value in answer.headers.items() if name not in _OF_THE_CONNECTION]
            start(f"{answer.status_code} {answer.reason_phrase}", kept)
            return [answer.content]

        with served(around(forwarded)) as address:
            yield url, {**options, "aws_endpoint_url": address}
