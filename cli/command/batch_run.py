"""One run of a batch command, and its progress."""

from collections.abc import Iterator
from contextlib import contextmanager

from tandem.batch.runtime.session import BatchRun
from tandem.cli.command.actor import who
from tandem.cli.command.call import Call
from tandem.cli.command.command_log import run_log
from tandem.cli.command.interruption import ending_children
from tandem.cli.command.progress import progress
from tandem.infra import clock
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publication, Publications
from tandem.views.errors import TandemError


@contextmanager
def batch_run(call: Call, command: str, *, copies: bool = False) -> Iterator[BatchRun]:
    """A run of the project. Its commits name the command and for whom it runs; stderr shows the progress of its Spark tasks.

    Ctrl-C ends the run and every process that it started, Spark's JVM too. The run then raises Interrupted: its sentence says
    what was kept or published.

    `copies` as in BatchRun. The log file has the command's name, because a user's name may not be a valid file name.
    """
    settings = call.settings()
    with run_log(call, settings, command) as say, progress(call) as watch:
        batch = BatchRun(
            settings,
            who(call, command),
            now=clock.now,
            say=say,
            environ=call.environ,
            debug=call.debug,
            copies=copies,
            started=watch,
        )
        before = _live(settings)
        with ending_children(lambda: _standing(command, before, _live(settings))), batch.releasing():
            yield batch


def _live(settings: Settings) -> Publication | None:
    """The live publication; None before the first one, and where the tables cannot be read: the command itself reports that."""
    try:
        return Publications(Tables.of(settings)).latest()
    except TandemError:
        return None


def _standing(command: str, before: Publication | None, now: Publication | None) -> str:
    """What stands after an interruption, and how to go on."""
    if command in ("verify", "rehearse"):
        return f"nothing was changed, and nothing is left behind: `tandem {command}` starts over"
    number = None if now is None or (before is not None and now.number == before.number) else now.number
    published = "nothing was published" if number is None else f"publication {number} was published"
    if command == "archive":
        return f"what was archived stays, and {published}: `tandem archive` completes this run and continues"
    return f"{published}: `tandem {command}` continues from its last completed step"
