"""One run of a batch command, and its progress."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tandem.batch.runtime.session import BatchRun
from tandem.cli.command.call import Call
from tandem.cli.command.command_log import run_log
from tandem.cli.command.progress import progress


@contextmanager
def batch_run(call: Call, command: str, *, by: str | None = None, copies: bool = False) -> Iterator[BatchRun]:
    """A run of the project. Its commits name `by`, by default the command; stderr shows the progress of its Spark tasks.

    `copies` as in BatchRun. The log file has the command's name, because a user's name may not be a valid file name.
    """
    settings = call.settings()
    with run_log(call, settings, command) as say, progress(call) as watch:
        batch = BatchRun(
            settings,
            by or command,
            now=lambda: datetime.now(UTC),
            say=say,
            environ=call.environ,
            debug=call.debug,
            copies=copies,
            started=watch,
        )
        with batch.releasing():
            yield batch
