"""The measurements: triggers of a speed layer that drains a backlog, and a recompute of many keys with its peak of memory."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import psutil

from tandem.bench.commands import BenchProject, running, until_ended
from tandem.bench.process_tree import tree
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.realtime.follower import Follower
from tandem.views.errors import TandemError

TOPIC: Final = "scale"
SOURCE: Final = "requests"
_DEFINITIONS: Final = Path(__file__).with_name("definitions.py")
_START: Final = datetime(2026, 11, 1, 8, tzinfo=UTC)
_EVERY_S: Final = 0.2


@dataclass(frozen=True)
class ViewsScale:
    """Rounds, how many triggers one run shows, after how many first ones, of how many events each; keys, and events of each."""

    rounds: int
    triggers: int
    warm_up: int
    events: int
    keys: int
    of_each: int
    limit_s: float


FULL: Final = ViewsScale(rounds=2, triggers=60, warm_up=15, events=2_000, keys=1_000_000, of_each=3, limit_s=900)
QUICK: Final = ViewsScale(rounds=1, triggers=30, warm_up=10, events=2_000, keys=200_000, of_each=3, limit_s=400)
VIEWS: Final = (3, 20)


@dataclass(frozen=True)
class Triggers:
    """The median seconds from commit to commit of a speed layer with N views, and the shortest and longest."""

    views: int
    round: int
    seconds: float
    least: float
    most: float


@dataclass(frozen=True)
class Keys:
    """A recompute of N keys with a distinct and a quantiles sketch each: its seconds, and its peak of memory in bytes.

    Memory is that of all its processes together, shared pages counted once.
    """

    keys: int
    events: int
    seconds: float
    peak: int


def measure(
    place: BenchProject, scale: ViewsScale, say: Callable[[str], None], more: Callable[[], bool]
) -> Iterator[Triggers | Keys]:
    """All of it, runs with few and with many views in turn, as long as there is time for `more`."""
    if not more():
        return
    kafka.create(place.connection, [TOPIC], Settings())
    say("sending the backlog")
    send(place, scale.events * (scale.triggers + scale.warm_up + 2), users=5_000)
    for number in range(scale.rounds):
        for views in VIEWS if number % 2 == 0 else VIEWS[::-1]:
            if not more():
                return
            found = triggers(place, scale, views, number)
            say(f"round {number + 1}: {views} views, {found.seconds * 1000:.0f} ms a trigger")
            yield found
    if not more():
        return
    say(f"sending {scale.keys * scale.of_each} events of {scale.keys} keys")
    send(place, scale.keys * scale.of_each, users=scale.keys)
    yield keys(place, scale)


def send(place: BenchProject, events: int, *, users: int) -> None:
    """Events of N users, each as often as any other, a thousand a second by their own clock."""
    dice = Random(7)  # noqa: S311  sample events, the same in every run
    with kafka.Sender(place.connection.address) as sender:
        for number in range(events):
            at = (_START + timedelta(milliseconds=number)).isoformat()
            path, status = f"/s{number % 7}/{dice.randrange(200)}", dice.choice((200, 200, 200, 404, 500))
            value = (
                f'{{"id":"{users}-{number}","at":"{at}","user":"u{number % users}","path":"{path}","status":{status},'
                f'"bytes":{dice.randrange(200_000)},"ms":{dice.expovariate(0.02):.3f}}}'
            )
            sender.send(TOPIC, value.encode())


def triggers(place: BenchProject, scale: ViewsScale, views: int, number: int) -> Triggers:
    """Have a speed layer drain the backlog, a trigger after the other. Raises TandemError if it takes longer than its limit."""
    state = place.folder / f"triggers-{number}-{views}"
    extra = {"TANDEM_SPEED_MAX_EVENTS": str(scale.events), "TANDEM_SPEED_TRIGGER_MS": "1"}
    with running(place, state, _definitions(f"TWENTY[:{views}]"), "speed", extra=extra) as process:
        follower = Follower(Tables.of(Settings(state=str(state / "tandem"))), 1, SOURCE)
        deadline = time.monotonic() + scale.limit_s
        while True:
            folds = [commit for commit in follower.poll() if commit.kind == "fold"]
            if sum(commit.batches for commit in folds) > scale.triggers + scale.warm_up:
                break
            _refuse_ended(process, deadline, scale.limit_s, state)
            time.sleep(_EVERY_S)
    # Compacted commits hold several triggers: those that are still apart are the newest.
    times = [commit.at for commit in folds if commit.batches == 1 and commit.at is not None][-scale.triggers :]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    return Triggers(views, number, median(gaps), min(gaps), max(gaps))


def keys(place: BenchProject, scale: ViewsScale) -> Keys:
    """Archive the topic and recompute a view of its users. Raises TandemError if it takes longer than its limit."""
    state = place.folder / "keys"
    view = _definitions("(per_user,)")
    with running(place, state, view, "archive") as process:
        until_ended(process, scale.limit_s, state)
    start = time.monotonic()
    with running(place, state, view, "recompute") as process, _peak_of(process.pid) as memory:
        until_ended(process, scale.limit_s, state)
    seconds = time.monotonic() - start
    rows = json.loads((state / "recompute.out").read_text())["done"][0]["events"]
    return Keys(scale.keys, rows, seconds, max(memory))


def _definitions(views: str) -> str:
    return f"{_DEFINITIONS.read_text()}\nVIEWS = {views}\n"


def _refuse_ended(process: subprocess.Popen[bytes], deadline: float, limit_s: float, state: Path) -> None:
    if process.poll() is not None:
        raise TandemError(f"the speed layer ended with exit code {process.returncode}; its output is in {state}")
    if time.monotonic() > deadline:
        raise TandemError(f"the backlog was not drained within {limit_s:.0f} s; its output is in {state}")


@contextmanager
def _peak_of(root: int) -> Iterator[list[int]]:
    """The memory that a process and its descendants have together, looked at several times a second."""
    seen, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(_EVERY_S):
            total = 0
            for process in tree(root):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    memory = process.memory_full_info()
                    total += getattr(memory, "pss", memory.rss)
            seen.append(total)

    thread = threading.Thread(target=watch, name="peak")
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
