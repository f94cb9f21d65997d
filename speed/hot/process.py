"""The process that folds hot tails, as a child of the server; it is started again whenever it ends."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, Final, cast

from tandem.infra.process import pdeathsig, pulse
from tandem.infra.settings import Settings
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.hot.messages import read
from tandem.ledger.hot.report import HotReader
from tandem.views.errors import TandemError, said_by

_AGAIN_S: Final = 1.0
_GRACE_S: Final = 5.0
_LINE: Final = 4096


@dataclass
class HotProcess:
    """Keeps the process of a project running, and passes its messages to the feed; `log` gets each line that it prints.

    `reader` is who gets the messages; `least_s` are the least seconds between the beginnings of two folds.
    """

    project: Path
    environ: Mapping[str, str] = field(repr=False)
    feed: HotFeed
    log: Callable[[str], object]
    reader: HotReader = "server"
    least_s: float = 0.0
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False, repr=False)
    _thread: threading.Thread | None = field(default=None, init=False, repr=False)
    _stopped: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def pid(self) -> int | None:
        """The id of the process, if there is one."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it; returns at once."""
        self._thread = threading.Thread(target=self._run, name="hot tails", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Have it fold faster for a while: somebody asks for answers. Any thread may call it."""
        with self._lock:  # nobody else may get the number of a descriptor that is closed meanwhile
            process = self._process
            if process is not None and process.stdin is not None and not process.stdin.closed:
                with suppress(OSError):  # it has ended, or has read none of many
                    os.write(process.stdin.fileno(), b"?")

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
        if self._thread is not None:
            self._thread.join(_GRACE_S)

    def _run(self) -> None:
        # The kernel ends the process with the thread that started it, so this thread waits for it.
        while not self._stopped.is_set():
            try:
                self._once()
            except OSError as error:
                self.log(f"the process of hot tails cannot be started: {error}")
            self._stopped.wait(_AGAIN_S)

    def _once(self) -> None:
        words = [sys.executable, "-u", "-m", "tandem.speed.hot", str(self.project), self.reader, str(self.least_s)]
        with self._lock:
            if self._stopped.is_set():
                return
            process = self._process = subprocess.Popen(  # noqa: S603 - our own command
                pdeathsig.command(words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.project,
                env=dict(self.environ),
            )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: PT018 - pipes
        os.set_blocking(process.stdin.fileno(), False)
        forwarding = threading.Thread(target=self._forward, args=(process.stderr,), name="hot tails, log", daemon=True)
        forwarding.start()
        why = "the process of hot tails has ended"
        try:
            for message in read(cast("BinaryIO", process.stdout)):
                self.feed.apply(message)
        except TandemError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - whatever the error, another process starts from where commits end
            why = f"a message of the process of hot tails cannot be applied: {said_by(error)}"
        finally:
            process.kill()
            code = process.wait()
            forwarding.join(_GRACE_S)
            with self._lock:
                process.stdin.close()
            process.stdout.close()
        self.feed.disconnect(why)
        if not self._stopped.is_set():
            self.log(f"{why} (exit code {code}); starting it again")

    def _forward(self, stream: IO[bytes]) -> None:
        with stream, suppress(OSError, ValueError):
            while line := stream.readline(_LINE):
                if text := line.decode("utf-8", "replace").rstrip():
                    self.log(text)


@contextmanager
def hot_process(
    project: Path,
    environ: Mapping[str, str],
    feed: HotFeed | None,
    log: Callable[[str], object],
    *,
    reader: HotReader = "server",
    least_s: float = 0.0,
) -> Iterator[None]:
    """Keep the process running, if a feed gets its messages; it folds faster while somebody asks for answers."""
    if feed is None:
        yield
        return
    process = HotProcess(project, environ, feed, log, reader, least_s)
    feed.wanted = process.ask
    process.start()
    try:
        yield
    finally:
        process.stop()


def why_not(settings: Settings) -> str | None:
    """Why a server that starts now has no hot tails, as a clause; None if it has.

    Their process runs the project's code, which a server itself never does. So by default it is only there where the speed layer
    has run that code, on this machine and from this state folder.
    """
    if settings.serving.hot == "off":
        return 'serving.hot is "off"'
    if settings.serving.hot == "on":
        return None
    if pulse.read(settings.folder, "speed") is None:
        return "the speed layer has not run on this machine from this state folder"
    return None
