"""Asks Tandem's server for markers: ADDRESS TOKEN VIEW PREFIX, the first two files. Prints each new path, and when it saw it.

Markers are numbered: it looks up the next few, as a user would ask. It ends with its input.
"""

import json
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from tandem.bench.input_end import watched

LOOK_S = 0.01
# Partitions are read apart, so that a marker may be counted before an earlier one.
AHEAD = 8
PATIENCE_S = 30


def main(address: str, token: str, view: str, prefix: str) -> None:
    """Follow the view until the input ends."""
    ended, connection = watched(), None
    first, seen = 0, set[int]()
    while not ended.wait(LOOK_S):
        try:
            if connection is None:
                connection = HTTPConnection(urlsplit(Path(address).read_text("utf-8")).netloc, timeout=PATIENCE_S)
                secret = Path(token).read_text("utf-8").strip()
            wanted = [number for number in range(first, first + len(seen) + AHEAD) if number not in seen]
            body = {"keys": [{"path": f"{prefix}{number}"} for number in wanted]}
            headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
            connection.request("POST", f"/views/{view}/lookup", json.dumps(body).encode(), headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException):  # it starts, or has not published anything yet
            connection = None
            continue
        if answer.status != 200:
            continue
        at = time.time()
        for row in json.loads(content)["rows"]:
            number = int(row["path"].removeprefix(prefix))
            if number not in seen:
                seen.add(number)
                print(row["path"], at, flush=True)
        while first in seen:
            seen.remove(first)
            first += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
