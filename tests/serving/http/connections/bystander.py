"""Somebody else who asks while a server is attacked: another process, another token, another address.

`python -m tests.serving.http.connections.bystander ADDRESS STATUS PATH [BODY]` reads a secret from stdin, asks a hundred times,
each time on a connection of its own from 127.0.0.2, and prints how many answers came with this status within two seconds.
"""

import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from tandem.infra.folders import ROOT

ASKED = 100
WITHIN_S = 2.0
_FROM = "127.0.0.2"


def answered(address: str, secret: str, path: str = "/me", *, status: int = 200, body: str | None = None) -> int:
    """How many of `ASKED` requests another process got answered with the status within `WITHIN_S` each."""
    question = [str(status), path] if body is None else [str(status), path, body]
    command = [sys.executable, "-m", "tests.serving.http.connections.bystander", address, *question]
    told = subprocess.run(command, input=secret, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    return int(told.stdout)


def _answered(secret: str, address: str, status: str, path: str, body: str | None = None) -> int:
    at, good = urlsplit(address), 0
    for _ in range(ASKED):
        began = time.monotonic()
        asking = HTTPConnection(str(at.hostname), at.port, timeout=WITHIN_S, source_address=(_FROM, 0))
        try:
            headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
            asking.request("GET" if body is None else "POST", path, body, headers)
            answer = asking.getresponse()
            answer.read()
        except (OSError, HTTPException):
            continue
        finally:
            asking.close()
        good += answer.status == int(status) and time.monotonic() - began <= WITHIN_S
    return good


if __name__ == "__main__":
    sys.stdout.write(str(_answered(sys.stdin.read(), *sys.argv[1:])))
