"""Runs `tandem` for a task, as a child process that ends with the task.

The lines of the command's stderr go to the task's log as they arrive; its stdout is one JSON document.

The command never outlives its task:

* A signal to the task's process group reaches both.
* If only the task dies, the kernel kills the command (on Linux).
* A task whose worker died ends itself.
"""

import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

from tandem_dags import dying_with

WRONG_USAGE: Final = 2
_SECRET: Final = re.compile(
    r"password|secret|token|jaas|credential|(?<![a-z])sas(?![a-z])|(access|account|customer|encryption|master|private)_?key",
    re.IGNORECASE,
)
_MASK: Final = "***"
_LOOK_S: Final = 1.0
_PATIENCE_S: Final = 10.0


class Orphaned(Exception):
    """The task's worker has died; another worker will run the task again."""


@dataclass(frozen=True)
class Done:
    """The result of a command: its exit code, negative for a signal, and its document, empty if it printed none."""

    code: int
    document: Mapping[str, Any] = field(hash=False)

    @property
    def error(self) -> str:
        """The command's error, in its own words."""
        killed = f"ended by signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return str(self.document.get("error", killed))


@dataclass
class Command:
    """One run of `tandem`, which can be stopped; `who` is for whom, as `tandem history` shows it."""

    words: Sequence[str]
    secrets: Sequence[str] = ()
    who: str | None = None
    _process: "subprocess.Popen[bytes] | None" = None

    def run(self, say: Callable[[str], object]) -> Done:
        """Run the command to its end; `say` receives each line of its stderr. Raises Orphaned after it has ended the command."""
        worker = os.getppid()
        with tempfile.TemporaryFile() as out:
            self._process = process = subprocess.Popen(  # noqa: S603 - the command that the configuration names
                [sys.executable, "-I", "-S", dying_with.__file__, str(os.getpid()), *self.words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                env=None if self.who is None else {**os.environ, "TANDEM_WHO": self.who},
            )
            assert process.stderr is not None  # it is a pipe
            try:
                for line in _lines(process.stderr, process):
                    if os.getppid() != worker:
                        raise Orphaned(f"worker {worker} died")
                    if line:
                        say(masked(line, self.secrets))
                code = process.wait()
            finally:
                self.stop()
            out.seek(0)
            return Done(code, masked(_document(out.read()), self.secrets))

    def stop(self) -> None:
        """End the command: by SIGTERM, and by SIGKILL a little later. Its JVM ends with it."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of this environment that must stay secret, the longest first."""
    found = {value for name, value in environ.items() if value and _SECRET.search(name)}
    return tuple(sorted(found, key=len, reverse=True))


def masked(value: Any, secrets: Sequence[str]) -> Any:
    """A text or a document with every secret replaced."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, _MASK)
        return value
    if isinstance(value, Mapping):
        return {masked(name, secrets): masked(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner, secrets) for inner in value]
    return value


def _lines(stream: IO[bytes], process: "subprocess.Popen[bytes]") -> Iterable[str]:
    """The stream's lines as they arrive, and an empty line every second, until the process has ended and no line is left.

    A process that the command left behind may keep the stream open; this does not wait for it.
    """
    left = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            ready = selector.select(_LOOK_S)
            if not ready:
                if process.poll() is not None:
                    break
                yield ""
                continue
            got = os.read(stream.fileno(), 65536)
            if not got:
                while process.poll() is None:
                    yield ""
                    time.sleep(0.05)
                break
            *whole, left = (left + got).split(b"\n")
            yield from (line.decode("utf-8", "replace").rstrip() for line in whole)
    if left:
        yield left.decode("utf-8", "replace").rstrip()


def _document(out: bytes) -> dict[str, Any]:
    try:
        document = json.loads(out)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
