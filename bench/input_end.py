"""The end of a program's standard input: when the benchmark that started the program has ended, or wants it to end."""

import sys
import threading


def watched() -> threading.Event:
    """An event that is set once standard input has ended; a thread reads it until then."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, name="end of input", daemon=True).start()
    return ended
