"""A third S3 server, written by others in Go: gofakes3."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread

from tests.infra.storage.go_build import built

_BUCKET = "go"


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
