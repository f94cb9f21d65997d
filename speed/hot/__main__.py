"""The process of hot tails: `python -m tandem.speed.hot PROJECT [LEAST_S]`, which `tandem serve` starts, and which ends with it.

It writes messages (ledger/hot/messages.py) to its standard output, and sentences about its work to standard error.
"""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

import msgspec

from tandem.infra import clock, kafka, settings
from tandem.infra.kafka import broker
from tandem.infra.kafka.bulk_reader import LogMoved
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.messages import HotMessage, HotStatus, aside, message_of, write
from tandem.ledger.hot.report import READERS, HotReporter, HotSource
from tandem.ledger.log.positions import distance
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Release, Releases
from tandem.speed.hot.follow import HotFollower, HotTailEnded, OtherRelease, RecordsLost
from tandem.views.errors import TandemError
from tandem.views.project.project import load_files

_WAIT_S: Final = 0.2
_AGAIN_S: Final = 1.0
_AGAIN_MOST_S: Final = 60.0
"""The most seconds between two starts of a tail: each start loads all identities within the dedup window."""
_LOST: Final = (RecordsLost, LogMoved, kafka.NoTopic)
"""After these errors the log may no longer have records that hot commits count."""
LATELY_S: Final = 2.0
"""Seconds for which a question counts; a server reports further ones more often (`ledger/hot/feed.py`)."""
_AT_ONCE: Final = 64


@dataclass
class Demand:
    """Questions, from the bytes of a descriptor that the server writes while there are any."""

    clock: Callable[[], float] = time.monotonic
    _until: float = field(default=float("-inf"), init=False)
    _begun: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    def follow(self, descriptor: int) -> None:
        """Read until the end of the stream."""
        while os.read(descriptor, _AT_ONCE):
            self._until = self.clock() + LATELY_S
            self._begun.set()

    def there(self) -> bool:
        """Whether somebody has asked lately."""
        return self.clock() < self._until

    def wait(self, seconds: float) -> None:
        """Wait that long, or until somebody asks again after a while in which nobody did."""
        self._begun.clear()  # first: a question that comes meanwhile is not missed
        if self.there():
            time.sleep(seconds)
        else:
            self._begun.wait(seconds)


@dataclass
class Reports:
    """Reports why something does not go well, once: not again while the reason differs in numbers alone, such as offsets."""

    what: str
    log: Callable[[str], object]
    _kind: str | None = field(default=None, init=False)

    def report(self, why: str | None) -> None:
        """Report the reason if it has changed. None: all goes well again, and the next reason is reported, whichever it is."""
        kind = None if why is None else re.sub(r"\d+", "0", why)
        if kind not in (None, self._kind):
            self.log(f"{self.what}: {why}")
        self._kind = kind


@dataclass
class HotTails:
    """The hot tails of the live release's sources, each in a thread; `out` receives their messages."""

    settings: Settings
    out: BufferedWriter
    stop: Event
    log: Callable[[str], object]
    reporter: HotReporter
    demand: Demand = field(default_factory=Demand)
    least_s: float = 0.0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def run(self) -> None:
        """Follow the live release, whichever it is, until `stop`."""
        self.reporter.start()
        tables, reports = Tables.of(self.settings), Reports("the hot tails cannot read the live release", self.log)
        while not self.stop.is_set():
            live = _live(tables, reports)
            if live is None:
                self.stop.wait(_AGAIN_S)
                continue
            (release, sources), over = live, Event()
            threads = [
                Thread(target=self._guarded, args=(tables, release, name, over), name=f"hot {name}", daemon=True)
                for name in sources
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            # A release without views has no thread to wait for.
            self.stop.wait(0 if threads else _AGAIN_S)

    def _guarded(self, tables: Tables, release: Release, name: str, over: Event) -> None:
        """Follow a source until another release is live, which any of the threads may find."""
        try:
            self._follow(tables, release, name, over)
            over.set()
        except BaseException:
            self.stop.set()  # a defect: the server starts the process again
            raise

    def _follow(self, tables: Tables, release: Release, name: str, over: Event) -> None:
        project = load_files(release.files)
        source = project.sources[name]
        views = {each: view for each, view in project.views.items() if view.source.name == name}
        status = HotStatus()
        reports = Reports(f"the hot tail of source '{name}' stands aside", self.log)
        again_s = pause_s = _AGAIN_S
        polls = Reports(f"the hot tail of source '{name}' cannot poll the commits", self.log)
        while not (self.stop.is_set() or over.is_set()):
            following: HotFollower | None = None
            try:
                following = HotFollower(
                    self.settings,
                    tables,
                    kafka.connect(broker.address(self.settings)),  # closed once the follower is not referenced
                    release,
                    source,
                    views,
                    clock.now,
                    self._send,
                    sleep=self.demand.wait,
                    asked=self.demand.there,
                    least_s=self.least_s,
                    status=status,
                )
                following.begin()
                while not (self.stop.is_set() or over.is_set()):
                    if following.step(_WAIT_S):
                        again_s = _AGAIN_S
                    self._report(release, name, following.status, distance(following.tail.base, following.tail.end))
                    polls.report(following.unread)
                    reports.report(following.away)
                    if following.away is not None:
                        self._once_more(following.connection, following.away)
            except OtherRelease:
                return
            except (LogMoved, TandemError) as error:
                # What was compared counts on.
                status = aside(status if following is None else following.status, str(error))
                self._send(message_of(release.number, name, status, None, lost=isinstance(error, _LOST)))
                self._report(release, name, status, 0)
                reports.report(str(error))
                pause_s = _AGAIN_S
                if not isinstance(error, kafka.NoBroker):  # without a broker a start loads nothing
                    pause_s, again_s = again_s, min(2 * again_s, _AGAIN_MOST_S)
            finally:
                if following is not None:
                    following.close()
            # Not while the error is handled, whose traceback holds the tail's memory and connection.
            following = None
            if self._another_is_live(tables, release, pause_s, over):
                return

    def _another_is_live(self, tables: Tables, release: Release, seconds: float, over: Event) -> bool:
        """Wait before another start; returns at once whether another release is live meanwhile."""
        published = Publications(tables)
        while seconds > 0 and not (over.is_set() or self.stop.wait(min(seconds, _AGAIN_S))):
            seconds -= _AGAIN_S
            with suppress(TandemError):  # the start reports it
                live = published.latest()
                if live is None or live.release != release.number:
                    return True
        return False

    def _report(self, release: Release, name: str, status: HotStatus, ahead: int) -> None:
        self.reporter.report(HotSource(release.number, name, time.monotonic(), ahead=ahead, **msgspec.structs.asdict(status)))

    def _once_more(self, connection: kafka.BrokerConnection, away: str) -> None:
        """Wait a moment, for a broker that does not answer. Raises HotTailEnded if its address or login has changed."""
        self.stop.wait(_AGAIN_S)
        with suppress(kafka.NoBroker):
            if broker.address(self.settings) != connection.address:
                raise HotTailEnded(f"the broker has moved: {away}")

    def _send(self, message: HotMessage) -> None:
        with self._lock:
            try:
                write(self.out, message)
            except (OSError, ValueError):  # the server has ended
                self.stop.set()


def main() -> None:
    """Follow until SIGTERM, or until the server has ended, which writes to standard input while somebody asks."""
    stop = Event()
    # What a project's code prints must not be in the stream of messages.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    found = settings.load(Path(sys.argv[1]), os.environ)
    reader, least_s = next(each for each in READERS if each == sys.argv[2]), float(sys.argv[3])
    tails = HotTails(found, out, stop, _log, HotReporter(found.folder, reader), least_s=least_s)
    Thread(target=tails.demand.follow, args=(0,), name="demand", daemon=True).start()
    tails.run()
    with suppress(OSError):
        out.close()
    os._exit(0)


def _live(tables: Tables, reports: Reports) -> tuple[Release, Sequence[str]] | None:
    """The live release and the sources of its views; None, with the reason reported, if there is none to read now."""
    try:
        live = Publications(tables).latest()
        if live is None:
            return None
        release = Releases(tables).load(live.release)
        sources = sorted({view.source.name for view in load_files(release.files).views.values()})
    except TandemError as error:
        reports.report(str(error))
        return None
    reports.report(None)
    return release, sources


def _log(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
