"""The log events of commands: all messages of a long-running process, or the progress and the end of a run."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from structlog.typing import FilteringBoundLogger

from tandem.cli.command.call import AlreadyLogged, Call
from tandem.cli.command.error_sentence import worded
from tandem.infra import clock
from tandem.infra.logs import telling
from tandem.infra.settings import Settings


@contextmanager
def part_log(call: Call, settings: Settings, part: str) -> Iterator[FilteringBoundLogger]:
    """The logger of a process that runs until it is stopped. An error that ends it is its last event, and raised as Told."""
    log = telling.of_part(settings, part, now=clock.now)
    log.info("began", pid=os.getpid())
    try:
        yield log
    except Exception as error:
        sentence = worded(error)
        log.error(sentence, exc_info=error if call.debug else None)  # noqa: TRY400 - the stack only with --debug
        raise AlreadyLogged(sentence) from error
    log.info("ended", pid=os.getpid())


@contextmanager
def run_log(call: Call, settings: Settings, part: str) -> Iterator[Callable[[str], None]]:
    """Reports the progress of a command: to the user on stderr, and to the project's logs."""
    log = telling.filed(settings, part, now=clock.now).bind(run=f"{part}-{os.getpid()}")

    def say(text: str) -> None:
        call.say(text)
        log.info(text)

    log.info("began", pid=os.getpid())
    try:
        yield say
    except Exception as error:
        log.error(worded(error), exc_info=error if call.debug else None)  # noqa: TRY400 - likewise
        raise
    log.info("done")
