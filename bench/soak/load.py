"""The load: several kinds of questions at once, each from a connection of its own, while a process commits and publishes."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import numpy as np
import psutil

from tandem.bench.serving.published import SMALL, VIEW, page, publish
from tandem.bench.serving.served import BenchClient, ingesting, server
from tandem.views.errors import TandemError

if TYPE_CHECKING:
    from subprocess import Popen

PAGES: Final = 200
"""Requests of a commit."""
ANSWERS: Final = (200, 410, 429, 504)
"""The accepted statuses of answers: 429 and 504 are caused by load, 410 by a newer publication."""
_HELD_MB: Final = 16
"""Of answers that are kept (`serving.held_mb`): so few that some are released before the warm-up ends, however short it is."""
_SAMPLES: Final = 120
_SAID: Final = 2000
_STREAM_S: Final = 5.0
"""Seconds after which a stream of changes is closed and another one opened."""


MOST: Final = 1.1
"""The largest ratio of the last quarter to the second."""
_POOL: Final = 100
"""How many threads more are not a leak: delta-rs reads each entry of a log since its last checkpoint in a thread of its own, and
keeps it while there is work. There are about N entries at most.
"""


@dataclass(frozen=True)
class SoakSample:
    """What the server's process has, `seconds` after the load began; its children, which run SQL, are not counted."""

    seconds: float
    bytes: int
    handles: int
    threads: int


@dataclass(frozen=True)
class Flatness:
    """Of one figure the medians of the second and the last quarter, and its slope a minute after the first quarter.

    `slack` is by how much it may grow in any case: pools fill up, and a few more are not a leak.
    """

    what: str
    second: float
    last: float
    slope: float
    slack: float

    @property
    def ratio(self) -> float:
        """The ratio of the last quarter to the second."""
        return self.last / self.second if self.second else 1.0

    @property
    def flat(self) -> bool:
        """Whether the figure does not grow."""
        return self.ratio <= MOST or self.last - self.second <= self.slack


def flatness(samples: Sequence[SoakSample]) -> list[Flatness]:
    """Of each figure; the first quarter of the time is warm-up. At least one sample a quarter."""
    length = samples[-1].seconds
    warm = [one for one in samples if one.seconds > length / 4]
    second = [one for one in warm if one.seconds <= length / 2]
    last = [one for one in warm if one.seconds > length * 3 / 4]
    minutes = np.array([one.seconds for one in warm]) / 60

    def of(what: str, slack: float) -> Flatness:
        values = np.array([float(getattr(one, what)) for one in warm])
        slope = float(np.polyfit(minutes, values, 1)[0]) if len(warm) > 1 else 0.0
        early, late = (median(getattr(one, what) for one in part) for part in (second, last))
        return Flatness(what, early, late, slope, slack)

    return [of("bytes", 32 * 2**20), of("handles", 8), of("threads", _POOL)]


@dataclass(frozen=True)
class Soak:
    """How long, over how many keys; `pause_s` is between two questions of a connection, `every_s` between two commits.

    After each `publish_every` commits something is published.
    """

    seconds: float
    keys: int = 20_000
    pause_s: float = 0.01
    every_s: float = 0.2
    publish_every: int = 50


@dataclass(frozen=True)
class Soaked:
    """What was seen: samples of the server's process, answers by kind and status, commits.

    Status 0 is a connection that broke, or a stream that was ended. `broken` has the kind and the error of each, and what was
    said where it was not an answer.
    """

    samples: tuple[SoakSample, ...]
    answers: dict[str, dict[int, int]]
    commits: int
    broken: dict[str, int]


def soak(folder: Path, how: Soak, say: Callable[[str], None]) -> Soaked:
    """Query a server for that time. Raises TandemError if it does not start."""
    say(f"writing a view of {how.keys:,} keys")
    publish(folder, how.keys)
    over = threading.Event()
    broken: Counter[str] = Counter()
    counts = {name: _Counts(name, broken) for name in (*_LOADS, "changes")}
    commits: Counter[str] = Counter()
    with ExitStack() as stack:
        number, client = stack.enter_context(server(folder, {"HELD_MB": _HELD_MB}))
        committing = stack.enter_context(ingesting(folder, how.keys, PAGES, how.every_s, how.publish_every))
        threading.Thread(target=_count, args=(committing, commits), daemon=True).start()  # it ends with that process
        works = [_asking(client, how, counts[name], over) for name in _LOADS]
        stack.enter_context(_running(over, [*works, _streaming(client, how, counts["changes"], over)]))
        process, began = psutil.Process(number), time.monotonic()
        samples: list[SoakSample] = []
        while (seconds := time.monotonic() - began) < how.seconds:
            for name, lives in (("serve", process.is_running()), ("ingesting", committing.poll() is None)):
                if not lives:
                    raise TandemError(f"process `{name}` has ended after {seconds:.0f} s; {folder / name}.err says why")
            with process.oneshot():
                samples.append(SoakSample(seconds, process.memory_info().rss, process.num_fds(), process.num_threads()))
            if len(samples) % (_SAMPLES // 4) == 0:
                answered = sum(one.statuses.total() for one in counts.values())
                say(f"{seconds:.0f} s: {samples[-1].bytes / 2**20:.0f} MiB, {answered:,} answers")
            over.wait(how.seconds / _SAMPLES)
    answers = {name: dict(sorted(found.statuses.items())) for name, found in counts.items()}
    return Soaked(tuple(samples), answers, commits["made"], dict(broken))


@dataclass(frozen=True)
class _Counts:
    """Answers to one kind of question by status, and what broke of all kinds."""

    name: str
    broken: "Counter[str]"
    statuses: "Counter[int]" = field(default_factory=Counter)

    def answered(self, status: int, content: bytes) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        if status not in ANSWERS:
            self.broken[f"{self.name}: {status} {content[:_SAID].decode(errors='replace')}"] += 1

    def broke(self, error: Exception) -> None:
        """Count a connection that broke."""
        self.statuses[0] += 1
        self.broken[f"{self.name}: {type(error).__name__}"] += 1


def _count(committing: "Popen[bytes]", commits: "Counter[str]") -> None:
    assert committing.stdout is not None
    for _ in committing.stdout:
        commits["made"] += 1


@contextmanager
def _running(over: threading.Event, works: list[Callable[[], None]]) -> Iterator[None]:
    """Threads that do all of this until it is over."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _asking(client: BenchClient, how: Soak, counts: _Counts, over: threading.Event) -> Callable[[], None]:
    def ask() -> None:
        own, dice = client.another(retry=False), random.Random(counts.name)  # noqa: S311  no secret depends on it
        while not over.wait(how.pause_s):
            try:
                counts.answered(*_LOADS[counts.name](own, dice, how.keys))
            except (HTTPException, OSError) as error:
                counts.broke(error)
                own.close()
        own.close()

    return ask


def _streaming(client: BenchClient, how: Soak, counts: _Counts, over: threading.Event) -> Callable[[], None]:
    """Follow a view's changes for a while, again and again, from where the last stream ended."""
    address = f"http://{urlsplit(client.address).netloc}/views/{VIEW}/changes"

    def follow() -> None:
        token = None
        while not over.wait(how.pause_s):
            path = address if token is None else f"{address}?since={quote(token)}"
            try:
                request = Request(path, headers={"Authorization": f"Bearer {client.secret}"})  # noqa: S310  it is loopback
                with urlopen(request, timeout=30) as stream:  # noqa: S310  likewise
                    counts.answered(stream.status, b"")
                    until = time.monotonic() + _STREAM_S
                    while time.monotonic() < until and not over.is_set() and (line := stream.readline()):
                        if line.startswith(b"id: "):
                            token = line[4:].strip().decode()
                        elif line.startswith(b"event: over"):
                            token = None
                            counts.answered(0, stream.readline())
                            break
            except HTTPError as error:
                counts.answered(error.code, error.read())
                token = None
            except (HTTPException, OSError) as error:
                counts.broke(error)

    return follow


def _rows(client: BenchClient, dice: random.Random, _: int) -> tuple[int, bytes]:
    order = dice.choice(("", "&order=-bytes"))
    return client.asked(f"/views/{SMALL}/rows?limit={dice.choice((10, 100, 1000))}{order}")


def _row(client: BenchClient, dice: random.Random, keys: int) -> tuple[int, bytes]:
    return client.asked(f"/views/{VIEW}/row?key.page={quote(page(dice.randrange(keys)), safe='')}")


def _lookup(client: BenchClient, dice: random.Random, keys: int) -> tuple[int, bytes]:
    return client.asked(f"/views/{VIEW}/lookup", {"keys": [{"page": page(dice.randrange(keys))} for _ in range(100)]})


def _sql(client: BenchClient, dice: random.Random, _: int) -> tuple[int, bytes]:
    least = dice.randrange(100)
    return client.asked("/sql", {"statement": f"SELECT count(*) AS n, sum(bytes) AS bytes FROM {SMALL} WHERE hits >= {least}"})


_LOADS: Final[dict[str, Callable[[BenchClient, random.Random, int], tuple[int, bytes]]]] = {
    "rows": _rows,
    "row": _row,
    "lookup": _lookup,
    "sql": _sql,
}
