"""A third S3 server, written by others in Go: gofakes3, built from modules whose SHA-256 are in gofakes3/go.sum.

It is optional: a machine without Go, or that reaches no module proxy, skips its tests.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest

_MODULE = Path(__file__).with_name("gofakes3")
_BUCKET = "go"
_BUILD_S = 300


@cache
def _folder() -> TemporaryDirectory[str]:
    """A folder until the process ends."""
    return TemporaryDirectory()


@cache
def _built() -> str | None:
    """The path of the server, or None."""
    server = Path(_folder().name, "gofakes3")
    environ = {**os.environ, "GOFLAGS": "-mod=readonly -p=1", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    command = ["go", "build", "-o", str(server), "github.com/johannesboyne/gofakes3/cmd/gofakes3"]
    if shutil.which("go") is None:
        return None
    try:
        done = subprocess.run(command, cwd=_MODULE, env=environ, capture_output=True, timeout=_BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return str(server) if done.returncode == 0 else None


@contextmanager
def go_bucket() -> Iterator[tuple[str, Mapping[str, str]]]:
    """The address of a prefix of an empty bucket, and the options with which a client reaches it, as `s3_server.bucket`."""
    if (server := _built()) is None:
        pytest.skip("gofakes3 cannot be built: it needs Go 1.24 and a module proxy")
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
