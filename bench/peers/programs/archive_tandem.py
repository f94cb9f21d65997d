"""The topic archived by Tandem: copied byte for byte, decoded, and checked for gaps: PROJECT.

Prints `RUN START END`, in seconds since the epoch, without the start of Spark.
"""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from batch.archive import archive
from batch.runtime.session import BatchRun
from infra import settings
from views.project import project


def main(folder: Path) -> None:
    """Archive once."""
    batch = BatchRun(
        settings.load(folder, os.environ),
        "archive",
        now=lambda: datetime.now(UTC),
        say=lambda text: print(text, file=sys.stderr),
        environ=os.environ,
    )
    batch.session.range(1).count()
    start = time.time()
    archive.run(batch, lambda: project.load(folder))
    print("RUN", start, time.time(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
