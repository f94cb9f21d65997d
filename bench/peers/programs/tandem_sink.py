"""Runs Tandem's speed layer and sinks of a project until one of them ends: PROJECT."""

import subprocess
import sys


def main(project: str) -> int:
    """Start both, and wait. Whoever starts this ends all of its processes."""
    parts = [subprocess.Popen([sys.executable, "-m", "tandem.cli", part, "--project", project]) for part in ("speed", "sink")]
    while True:
        for process in parts:
            try:
                return process.wait(0.5) or 1
            except subprocess.TimeoutExpired:
                continue


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
