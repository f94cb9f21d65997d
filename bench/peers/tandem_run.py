"""Starts a command of Tandem's batch layer in a contestant's program."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from tandem.batch.runtime.session import BatchRun
from tandem.infra import settings


def start(folder: Path, command: str) -> BatchRun:
    """A run of a project's command, whose Spark has done a first job."""
    run = BatchRun(
        settings.load(folder, os.environ),
        command,
        now=lambda: datetime.now(UTC),
        say=lambda text: print(text, file=sys.stderr),
        environ=os.environ,
    )
    run.session.range(1).count()
    return run
