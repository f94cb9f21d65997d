"""A process that waits for commits to be counted: ADDRESS, and the token in TANDEM_TOKEN, until its standard input ends.

Each line that it reads is a commit as `ingesting` writes it; for each it writes the seconds until an answer counted it.
A process of its own, since a thread beside others that ask would also wait for those.
"""

import json
import os
import sys
import time
from urllib.parse import quote

from tandem.bench.serving.published import SMALL
from tandem.bench.serving.served import BenchClient


def main(address: str, secret: str) -> None:
    """Watch until there is nothing more to come."""
    client = BenchClient(address, secret)
    for line in sys.stdin:
        commit = json.loads(line)
        client.ask(f"/views/{SMALL}/rows?limit=1&measures=hits&min_position={quote(json.dumps(commit['end']))}")
        print(time.monotonic() - commit["at"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], os.environ["TANDEM_TOKEN"])
