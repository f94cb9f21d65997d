"""A broker of a test's own that may be frozen for a while, as a machine that hangs is."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.process import background
from tandem.infra.settings import KafkaSettings, Settings
from tests.stack import environ


@contextmanager
def own_broker(folder: Path) -> Iterator[tuple[kafka.BrokerConnection, int]]:
    """A connection that waits 5 seconds for an answer, and the broker's process id."""
    settings = Settings(state=str(folder), kafka=KafkaSettings(memory="320m", timeout_s=5))
    with background.starting(folder):
        process = embedded.start(settings, environ=environ())
    try:
        yield kafka.connect(embedded.address(settings)), process.pid
    finally:
        os.kill(process.pid, signal.SIGCONT)
        background.stop(folder, process, seconds=20)


def frozen(pid: int, seconds: float) -> Timer:
    """Stop a process now, and have it go on later."""
    os.kill(pid, signal.SIGSTOP)
    timer = Timer(seconds, os.kill, (pid, signal.SIGCONT))
    timer.start()
    return timer
