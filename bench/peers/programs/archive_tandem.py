"""The topic archived by Tandem: copied byte for byte, decoded, and checked for gaps: PROJECT.

Prints `RUN START END`, in seconds since the epoch, without the start of Spark.
"""

import sys
import time
from pathlib import Path

from tandem.batch.archive import write_archive
from tandem.bench.peers import tandem_run
from tandem.views.project import project


def main(folder: Path) -> None:
    """Archive once."""
    run = tandem_run.start(folder, "archive")
    start = time.time()
    write_archive.run(run, lambda: project.load(folder))
    print("RUN", start, time.time(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
