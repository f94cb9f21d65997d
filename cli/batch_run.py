"""One run of a batch command, and how far it has come."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from batch.session import Run
from cli.call import Call
from cli.part_log import run_log
from cli.progress import progress


@contextmanager
def batch_run(call: Call, by: str) -> Iterator[Run]:
    """A run of the project that names itself `by` in what it commits; its Spark tasks are shown until the block ends."""
    settings = call.settings()
    with run_log(call, settings, by) as say, progress(call) as watch:
        yield Run(
            settings,
            by,
            now=lambda: datetime.now(UTC),
            say=say,
            environ=call.environ,
            debug=call.debug,
            started=watch,
        )
