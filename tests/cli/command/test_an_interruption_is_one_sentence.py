"""Ctrl-C leaves one sentence, also where a library logs it."""

import logging
import os
import signal

import pytest

from tandem.cli.command.interruption import ending_children
from tandem.cli.command.signals import Interrupted


def wait_and_log() -> None:
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        logging.exception("KeyboardInterrupt while sending command.")  # noqa: LOG015  as the library does
        raise


@pytest.mark.usefixtures("interruptible")
def test_a_library_does_not_log_it(caplog: pytest.LogCaptureFixture) -> None:
    """As py4j 0.10.9.9 does, which waits for Spark's JVM."""
    with pytest.raises(Interrupted, match="interrupted; all stands"), ending_children(lambda: "all stands"):
        wait_and_log()
    assert caplog.records == []
    logging.error("something else")  # noqa: LOG015  as the library does
    assert [record.getMessage() for record in caplog.records] == ["something else"]
