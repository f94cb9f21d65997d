"""The demo's own bucket: an S3 server as a child process, and the environment with which commands reach it."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tandem.infra import folders
from tandem.views.errors import TandemError

_PACKAGES: Final = ("moto", "flask", "flask_cors")
_END_S: Final = 15


@contextmanager
def own_bucket(environ: Mapping[str, str], log: Path) -> Iterator[Mapping[str, str]]:
    """The variables of a bucket that exists until the block ends; the credentials among them are this process's, too.

    The server ends with this process, however that ends. Raises TandemError if the packages of the server are not installed, or
    if it does not start.
    """
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise TandemError(
            f"the demo's S3 server needs packages that are not installed: {', '.join(missing)}; "
            "install them with `pip install 'moto[s3]' flask flask-cors`"
        )
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as said:
        server = subprocess.Popen(
            [sys.executable, "-m", "tandem.cli.demo.s3_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=folders.child_environment(environ),
            start_new_session=True,
        )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        line = server.stdout.readline()
        if not line:
            raise TandemError(f"the demo's S3 server did not start; its log is {log}", code="process-crashed")
        found = json.loads(line)
        credentials = {"AWS_ACCESS_KEY_ID": secrets.token_hex(8), "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16)}
        # The demo reads the tables itself, too, and clients take credentials from their process's environment.
        os.environ |= credentials
        yield {"TANDEM_STORAGE_ROOT": found["root"], "TANDEM_STORAGE_OPTIONS": json.dumps(found["options"]), **credentials}
    finally:
        server.stdin.close()
        try:
            server.wait(_END_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()
