"""A command as a child that ends with this process: in its own session, with bounded output in memory."""

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from tandem.infra.process import pdeathsig

_GRACE_S: Final = 10.0
_LINE: Final = 4096


@dataclass(frozen=True)
class ChildResult:
    """The exit code, negative for a signal, and the output; None if it exceeded the limit."""

    code: int
    printed: bytes | None


@dataclass
class BoundedChild:
    """A command to run once: `words` in `folder`, with exactly the environment `environ`, and at most `most` bytes of output."""

    words: Sequence[str]
    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    most: int
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False, repr=False)
    _stopped: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def run(self, say: Callable[[str], object]) -> ChildResult:
        """Run the command to its end, in the calling thread; another thread passes each line of its stderr to `say`.

        Processes that it leaves in its session end a little later. Raises OSError if no process can be started.
        """
        with tempfile.TemporaryFile() as out:
            with self._lock:
                process = self._process = subprocess.Popen(  # noqa: S603 - our own command
                    pdeathsig.command(self.words),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.PIPE,
                    cwd=self.folder,
                    env=dict(self.environ),
                    start_new_session=True,
                )
            assert process.stderr is not None  # it is a pipe
            heard = threading.Thread(target=_tell, args=(process.stderr, say), name="heard", daemon=True)
            heard.start()
            if self._stopped.is_set():
                self.stop()
            code = process.wait()
            # The pipe ends with the last process that has it.
            heard.join(_GRACE_S)
            if heard.is_alive():
                _kill(process.pid)
                heard.join(_GRACE_S)
            size = out.seek(0, os.SEEK_END)
            out.seek(0)
            return ChildResult(code, out.read() if size <= self.most else None)

    def stop(self, seconds: float = _GRACE_S) -> None:
        """Send SIGTERM now, and SIGKILL to the session after this many seconds. Returns at once; for any thread."""
        self._stopped.set()
        with self._lock:
            process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()

        def insist() -> None:
            if process.poll() is None:
                _kill(process.pid)

        later = threading.Timer(seconds, insist)
        later.daemon = True
        later.start()


def _tell(stream: IO[bytes], say: Callable[[str], object]) -> None:
    with stream:
        while line := stream.readline(_LINE):
            if text := line.decode("utf-8", "replace").rstrip():
                say(text)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
