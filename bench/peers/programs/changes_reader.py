"""Follows a view's changes at Tandem's server for markers: ADDRESS TOKEN VIEW PREFIX, the first two files.

Prints each new path, and when it saw it. It reads all rows that change, as a consumer of a topic does, and ends with its input.
"""

import json
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from tandem.bench.input_end import watched

AGAIN_S = 0.05
PATIENCE_S = 30
DATA = b"data: "


def follow(address: str, token: str, view: str, prefix: str) -> None:
    """Follow until the server ends the stream or does not answer: it starts, or has not published anything yet."""
    connection = HTTPConnection(urlsplit(Path(address).read_text("utf-8")).netloc, timeout=PATIENCE_S)
    secret = Path(token).read_text("utf-8").strip()
    connection.request("GET", f"/views/{view}/changes", headers={"Authorization": f"Bearer {secret}"})
    answer = connection.getresponse()
    paths = set[str]()
    while answer.status == 200 and (line := answer.readline()):
        if not line.startswith(DATA):
            continue
        at = time.time()
        for row in json.loads(line.removeprefix(DATA)).get("rows", ()):
            if row["path"].startswith(prefix) and row["path"] not in paths:
                paths.add(row["path"])
                print(row["path"], at, flush=True)


def main(address: str, token: str, view: str, prefix: str) -> None:
    """Follow the view until the input ends."""
    ended = watched()

    def again_and_again() -> None:
        while not ended.wait(AGAIN_S):
            try:
                follow(address, token, view, prefix)
            except (OSError, HTTPException):
                continue

    Thread(target=again_and_again, name="changes", daemon=True).start()
    ended.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
