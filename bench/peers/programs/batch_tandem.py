"""The view recomputed by Tandem from its events table, audited and published each time: PROJECT REPEAT.

Prints `RUN START END`, in seconds since the epoch, for each repetition.
"""

import sys
import time
from pathlib import Path

from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.bench.peers import tandem_run
from tandem.views.project import project


def main(folder: Path, repeat: int) -> None:
    """Recompute as often as wanted, in one warm session."""
    run = tandem_run.start(folder, "recompute")
    for _ in range(repeat):
        start = time.time()
        recompute.run(run, lambda: project.load(folder), RecomputeRequest(mode="full"))
        print("RUN", start, time.time(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
