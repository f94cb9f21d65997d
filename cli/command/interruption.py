"""Ctrl-C (SIGINT) while a command works: it ends its children, and says in one sentence what stands and how to go on."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psutil

from tandem.cli.command.signals import Interrupted, undisturbed

_PATIENCE_S: Final = 5.0


@contextmanager
def ending_children(sentence: Callable[[], str]) -> Iterator[None]:
    """Raise Interrupted with this sentence if the block ends by Ctrl-C, once all processes that this process started have ended.

    What the block raises meanwhile follows from the interruption, such as the error of a connection to a process that has ended.
    """
    interrupts = 0

    def interrupt(*_: object) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            _signal_children(psutil.Process.terminate)  # so that nothing waits for them
        raise KeyboardInterrupt

    logging.getLogger().addFilter(_no_interruption)  # py4j logs it with a stack trace
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # of a command in the background of a script
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except BaseException as error:
        if not interrupts and not isinstance(error, KeyboardInterrupt):
            raise
        with undisturbed():
            end_children()
            raise Interrupted(f"interrupted; {sentence()}") from None
    finally:
        signal.signal(signal.SIGINT, before)
        logging.getLogger().removeFilter(_no_interruption)


def _no_interruption(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger is about anything but Ctrl-C."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def end_children() -> None:
    """End all processes that this process started, and those that they started: politely, then at once."""
    ended = _signal_children(psutil.Process.terminate)
    left = psutil.wait_procs(ended, timeout=_PATIENCE_S)[1]
    for process in [*left, *_signal_children(psutil.Process.kill)]:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=_PATIENCE_S)


def _signal_children(send: Callable[[psutil.Process], object]) -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.Error):
            send(child)
    return list(children)
