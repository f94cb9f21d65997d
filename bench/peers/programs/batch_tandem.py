"""The view recomputed by Tandem from its events table, audited and published each time: PROJECT REPEAT.

Prints `RUN START END`, in seconds since the epoch, for each repetition.
"""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from batch.recompute import recompute
from batch.recompute.plan import Request
from batch.runtime.session import BatchRun
from infra import settings
from views.project import project


def main(folder: Path, repeat: int) -> None:
    """Recompute as often as wanted, in one warm session."""
    batch = BatchRun(
        settings.load(folder, os.environ),
        "recompute",
        now=lambda: datetime.now(UTC),
        say=lambda text: print(text, file=sys.stderr),
        environ=os.environ,
    )
    batch.session.range(1).count()
    for _ in range(repeat):
        start = time.time()
        recompute.run(batch, lambda: project.load(folder), Request(mode="full"))
        print("RUN", start, time.time(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
