"""Look-ups per second of `tandem serve`, alone and while others commit, and of a bare FastAPI handler of the same bytes."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.parse import quote, urlsplit

import psutil
from rich.table import Table

from tandem.bench.serving.keep_busy import BusyLoad, keep_busy, requests
from tandem.bench.serving.over_http import EVERY_S, PAGES
from tandem.bench.serving.published import VIEW, publish
from tandem.bench.serving.questions import questions
from tandem.bench.serving.served import BenchClient, ingesting, server

CONNECTIONS: Final = 8
_NOT_ITS_OWN: Final = frozenset({"content-length", "date"})
"""Headers that every server sets by itself."""


@dataclass(frozen=True)
class RatesScale:
    """Keys of the view, turns of each server, and seconds of a turn."""

    keys: int
    turns: int
    seconds: float


FULL: Final = RatesScale(100_000, 8, 3.0)
QUICK: Final = RatesScale(20_000, 4, 1.0)


@dataclass(frozen=True)
class Turn:
    """The load of a turn, and the seconds of CPU that the server's process used for each answer."""

    load: BusyLoad
    cpu: float


@dataclass(frozen=True)
class Rates:
    """Turns of `tandem serve`, of the bare handler, and of `tandem serve` while another process commits.

    The first two alternate, and the last two, so a machine that slows down slows both.
    """

    served: tuple[Turn, ...]
    bare: tuple[Turn, ...]
    quiet: tuple[Turn, ...]
    committing: tuple[Turn, ...]

    @property
    def ratio(self) -> float:
        """The median over the turns of the rate, divided by the bare handler's."""
        return median(one.load.rate / other.load.rate for one, other in zip(self.served, self.bare, strict=True))

    @property
    def cpu_ratio(self) -> float:
        """The same of answers per second of CPU, which programs beside it change less."""
        return median(other.cpu / one.cpu for one, other in zip(self.served, self.bare, strict=True))

    @property
    def p99_ratio(self) -> float:
        """How many times as long the 99th percentile is while another process commits."""
        return median(one.load.p99 for one in self.committing) / median(one.load.p99 for one in self.quiet)


def measure(folder: Path, scale: RatesScale, say: Callable[[str], None]) -> Rates:
    """The rates over kept connections. Raises TandemError for any answer but 200."""
    publish(folder, scale.keys)
    paths = [f"/views/{VIEW}/row?key.page={quote(name, safe='')}" for name in questions(scale.keys, 5000)]
    with server(folder) as (pid, client):
        client.ask(paths[0])
        answer = folder / "answer.json"
        answer.write_text(json.dumps(_answer(client, paths[0])))
        served: list[Turn] = []
        bare: list[Turn] = []
        with server(folder, command=lambda _: ["-m", "tandem.bench.serving.bare", str(answer)]) as (other_pid, other):
            sides = ((pid, client, served), (other_pid, other, bare))
            for number in range(scale.turns):
                for process, one, found in sides if number % 2 else sides[::-1]:
                    found.append(_turn(process, one, paths, scale.seconds))
        rates = [f"{median(turn.load.rate for turn in found):,.0f}" for found in (served, bare)]
        say(f"{CONNECTIONS} connections: {rates[0]} look-ups a second, {rates[1]} of a bare FastAPI handler")
        quiet: list[Turn] = []
        committing: list[Turn] = []
        for _ in range(scale.turns // 2):
            quiet.append(_turn(pid, client, paths, scale.seconds))
            with ingesting(folder, scale.keys, PAGES, EVERY_S, 0) as commits:
                assert commits.stdout is not None
                commits.stdout.readline()  # the first commit is there
                committing.append(_turn(pid, client, paths, scale.seconds))
    return Rates(tuple(served), tuple(bare), tuple(quiet), tuple(committing))


def document(found: Rates) -> dict[str, Any]:
    """All figures."""
    ratios = {"ratio": found.ratio, "cpu_ratio": found.cpu_ratio, "p99_ratio": found.p99_ratio}
    return {**asdict(found), **ratios}


def table(found: Rates) -> Table:
    """The same for a person: medians over the turns."""
    shown = Table(f"{CONNECTIONS} connections", "look-ups/s", "p50, ms", "p99, ms", "CPU of an answer, us")
    for name, turns in _named(found):
        times = (f"{median(getattr(turn.load, part) for turn in turns) * 1e3:.2f}" for part in ("p50", "p99"))
        shown.add_row(
            name, f"{median(turn.load.rate for turn in turns):,.0f}", *times, f"{median(t.cpu for t in turns) * 1e6:.0f}"
        )
    return shown


def _named(found: Rates) -> Iterator[tuple[str, Sequence[Turn]]]:
    yield "tandem serve", found.served
    yield "a bare FastAPI handler", found.bare
    yield "tandem serve, later", found.quiet
    yield "while others commit", found.committing


def _turn(pid: int, client: BenchClient, paths: Sequence[str], seconds: float) -> Turn:
    process = psutil.Process(pid)
    before = process.cpu_times()
    load = keep_busy(client.address, requests(client.address, client.secret, paths), CONNECTIONS, seconds)
    after = process.cpu_times()
    return Turn(load, (after.user + after.system - before.user - before.system) / max(1.0, load.rate * seconds))


def _answer(client: BenchClient, path: str) -> dict[str, Any]:
    """The headers and the body that the bare handler returns."""
    connection = HTTPConnection(urlsplit(client.address).netloc)
    connection.request("GET", path, headers={"Authorization": f"Bearer {client.secret}"})
    found = connection.getresponse()
    body = found.read().decode()
    connection.close()
    return {"headers": {name: value for name, value in found.getheaders() if name.lower() not in _NOT_ITS_OWN}, "body": body}
