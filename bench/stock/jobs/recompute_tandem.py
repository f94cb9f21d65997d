"""Tandem's recompute, published each time, from the raw log and from the events table.

Prints the seconds of each repetition, without Spark's own start.
"""

import argparse
import json
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", required=True, type=Path)
    parser.add_argument("--repeat", required=True, type=int)
    told = parser.parse_args()
    seconds: dict[str, list[float]] = {"raw": [], "events": []}
    batch = BatchRun(
        settings.load(told.project, os.environ),
        "recompute",
        now=lambda: datetime.now(UTC),
        say=lambda text: print(text, file=sys.stderr),
        environ=os.environ,
    )
    batch.session.range(1).count()
    for _ in range(told.repeat):
        for name, is_raw in (("raw", True), ("events", False)):
            start = time.monotonic()
            recompute.run(batch, lambda: project.load(told.project), Request(mode="full", raw=is_raw))
            seconds[name].append(time.monotonic() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
