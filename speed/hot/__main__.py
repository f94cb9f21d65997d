"""The process of hot tails: `python -m speed.hot PROJECT`, which `tandem serve` starts, and which ends with it.

It writes messages (ledger/realtime/hot_messages.py) to its standard output, and sentences about its work to standard error.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import BinaryIO, Final

from infra import kafka, settings
from infra.kafka import broker
from infra.kafka.bulk_reader import LogMoved
from infra.settings import Settings
from ledger.delta.addresses import Tables
from ledger.publish import publications, releases
from ledger.publish.releases import Release
from ledger.realtime.hot_messages import Message, write
from speed.hot.follow import Aside, HotFollow, OtherRelease, Restart
from views.errors import TandemError
from views.project.project import load_files

_WAIT_S: Final = 0.2
_AGAIN_S: Final = 1.0


@dataclass
class HotTails:
    """The hot tails of the live release's sources, each in a thread; `out` receives their messages."""

    settings: Settings
    out: BinaryIO
    stop: Event
    say: Callable[[str], object]
    _lock: Lock = field(default_factory=Lock, repr=False)

    def run(self) -> None:
        """Follow the live release, whichever it is, until `stop`."""
        tables = Tables.of(self.settings)
        while not self.stop.is_set():
            live = publications.latest(tables)
            if live is None:
                self.stop.wait(_AGAIN_S)
                continue
            release = releases.load(tables, live.release)
            sources = {view.source.name for view in load_files(release.files).views.values()}
            threads = [
                Thread(target=self._guarded, args=(tables, release, name), name=f"hot {name}", daemon=True)
                for name in sorted(sources)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            # A release without views has no thread to wait for.
            self.stop.wait(0 if threads else _AGAIN_S)

    def _guarded(self, tables: Tables, release: Release, name: str) -> None:
        try:
            self._follow(tables, release, name)
        except BaseException:
            self.stop.set()  # a defect: the server starts the process again
            raise

    def _follow(self, tables: Tables, release: Release, name: str) -> None:
        project = load_files(release.files)
        source = project.sources[name]
        views = {each: view for each, view in project.views.items() if view.source.name == name}
        said: str | None = None
        while not self.stop.is_set():
            following: HotFollow | None = None
            try:
                connection = kafka.connect(broker.address(self.settings))
                following = HotFollow(self.settings, tables, connection, release, source, views, _now, self._send)
                following.begin()
                said = None
                while not self.stop.is_set():
                    try:
                        following.step(_WAIT_S)
                    except kafka.NoBroker as error:
                        # What it has folded stays right: it goes on with the same log, unless the broker is another one.
                        self._once_more(connection, error)
            except OtherRelease:
                return
            except (Aside, Restart, LogMoved, TandemError) as error:
                if following is not None:
                    following.aside(str(error))
                if str(error) != said:
                    said = str(error)
                    self.say(f"the hot tail of source '{name}' stands aside: {said}")
                self.stop.wait(_AGAIN_S)
            finally:
                if following is not None:
                    following.close()

    def _once_more(self, connection: kafka.Connection, error: kafka.NoBroker) -> None:
        """Wait a moment, for a broker that does not answer. Raises the error if the broker has another address or login now."""
        self.stop.wait(_AGAIN_S)
        with suppress(kafka.NoBroker):
            if broker.address(self.settings) != connection.address:
                raise Restart(f"the broker has moved: {error}")

    def _send(self, message: Message) -> None:
        with self._lock:
            try:
                write(self.out, message)
            except (OSError, ValueError):  # the server has ended
                self.stop.set()


def main() -> None:
    """Follow until SIGTERM, or until the server has ended."""
    stop = Event()
    # What a project's code prints must not be in the stream of messages.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    found = settings.load(Path(sys.argv[1]), os.environ)
    HotTails(found, out, stop, _say).run()
    with suppress(OSError):
        out.close()
    os._exit(0)


def _now() -> datetime:
    return datetime.now(UTC)


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
