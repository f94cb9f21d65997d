"""Ctrl-C leaves one sentence, also where a library logs it."""

import subprocess
import sys

PROGRAM = """
import logging, os, signal
from tandem.cli.command.interruption import ending_children
from tandem.cli.command.signals import Interrupted

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with ending_children(lambda: "all stands"):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
        except KeyboardInterrupt:
            logging.exception("KeyboardInterrupt while sending command.")
            raise
except Interrupted as error:
    print(error)
logging.error("something else")
"""


def test_a_library_does_not_log_it() -> None:
    """As py4j 0.10.9.9 does, which waits for Spark's JVM. In a process of its own: it ends all that the process started."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "interrupted; all stands\n"), done.stderr
    assert done.stderr == "ERROR:root:something else\n"
