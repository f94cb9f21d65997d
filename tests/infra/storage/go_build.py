"""Servers that others wrote in Go, built from modules whose SHA-256 are in a go.sum beside this file.

They are optional: a machine without Go, or that reaches no module proxy, skips their tests.
"""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

_BUILD_S: Final = 900


@cache
def _folder() -> TemporaryDirectory[str]:
    """A folder until the process ends."""
    return TemporaryDirectory()


def built(module: str, package: str) -> str:
    """The path of the command `package`, as the folder `module` pins it. Skips the test if it cannot be built."""
    if (server := _built(module, package)) is None:
        pytest.skip(f"{package} cannot be built: it needs the Go of its go.mod and a module proxy")
    return server


@cache
def _built(module: str, package: str) -> str | None:
    server = str(Path(_folder().name, module))
    environ = {**os.environ, "GOFLAGS": "-mod=readonly -p=1", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    command = ["go", "build", "-o", server, package]
    if shutil.which("go") is None:
        return None
    folder = Path(__file__).with_name(module)
    try:
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, timeout=_BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return server if done.returncode == 0 else None
