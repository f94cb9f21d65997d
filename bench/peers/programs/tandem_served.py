"""Runs Tandem's speed layer and server of a project until one of them ends: PROJECT ADDRESS, a file for the server's address."""

import json
import subprocess
import sys
from pathlib import Path


def main(project: str, address: str) -> int:
    """Start both, write the server's address, and wait. Whoever starts this ends all of its processes."""
    words = [sys.executable, "-m", "tandem.cli"]
    speed = subprocess.Popen([*words, "speed", "--project", project])
    server = subprocess.Popen([*words, "serve", "--project", project, "--port", "0", "--json"], stdout=subprocess.PIPE)
    assert server.stdout is not None
    if said := server.stdout.readline():
        file = Path(address)
        new = file.with_suffix(".new")
        new.write_text(json.loads(said)["address"], "utf-8")
        new.replace(file)
    while True:
        for process in (speed, server):
            try:
                return process.wait(0.5) or 1
            except subprocess.TimeoutExpired:
                continue


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
