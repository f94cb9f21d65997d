"""The process of hot tails: `python -m speed.hot PROJECT`, which `tandem serve` starts, and which ends with it.

It writes messages (ledger/realtime/hot_messages.py) to its standard output, and sentences about its work to standard error.
"""

import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BufferedWriter
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

from infra import kafka, settings
from infra.kafka import broker
from infra.kafka.bulk_reader import LogMoved
from infra.settings import Settings
from ledger.delta.addresses import Tables
from ledger.publish import publications, releases
from ledger.publish.releases import Release
from ledger.realtime.hot_messages import Message, State, of_change, write
from speed.hot.follow import Aside, HotFollow, OtherRelease, Restart
from views.errors import TandemError
from views.project.project import load_files

_WAIT_S: Final = 0.2
_AGAIN_S: Final = 1.0


@dataclass
class Reports:
    """Reports why something does not go well, once: not again while the reason differs in numbers alone, such as offsets."""

    what: str
    say: Callable[[str], object]
    _kind: str | None = field(default=None, init=False)

    def tell(self, why: str) -> None:
        """Report the reason if it has changed."""
        kind = re.sub(r"\d+", "0", why)
        if kind != self._kind:
            self._kind = kind
            self.say(f"{self.what}: {why}")

    def well(self) -> None:
        """All goes well again: the next reason is reported, whichever it is."""
        self._kind = None


@dataclass
class HotTails:
    """The hot tails of the live release's sources, each in a thread; `out` receives their messages."""

    settings: Settings
    out: BufferedWriter
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
        reports = Reports(f"the hot tail of source '{name}' stands aside", self.say)
        while not self.stop.is_set():
            following: HotFollow | None = None
            try:
                connection = kafka.connect(broker.address(self.settings))
                following = HotFollow(self.settings, tables, connection, release, source, views, _now, self._send)
                following.begin()
                reports.well()
                while not self.stop.is_set():
                    following.step(_WAIT_S)
                    if following.away is None:
                        reports.well()
                    else:
                        reports.tell(following.away)
                        self._once_more(connection, following.away)
            except OtherRelease:
                return
            except (Aside, Restart, LogMoved, TandemError) as error:
                if following is not None:
                    following.aside(str(error))
                else:
                    self._send(of_change(release.number, name, State(str(error)), None))
                reports.tell(str(error))
                self.stop.wait(_AGAIN_S)
            finally:
                if following is not None:
                    following.close()

    def _once_more(self, connection: kafka.Connection, away: str) -> None:
        """Wait a moment, for a broker that does not answer. Raises Restart if the broker has another address or login now."""
        self.stop.wait(_AGAIN_S)
        with suppress(kafka.NoBroker):
            if broker.address(self.settings) != connection.address:
                raise Restart(f"the broker has moved: {away}")

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
    out = os.fdopen(os.dup(1), "wb")
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
