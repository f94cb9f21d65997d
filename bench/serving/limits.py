"""The cost of connection limits: look-ups per second of `tandem serve`, and of the same application on plain uvicorn."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.parse import quote

from rich.table import Table

from tandem.bench.serving.published import VIEW, publish
from tandem.bench.serving.questions import questions
from tandem.bench.serving.served import Client, server, tandem_serve

CONNECTIONS: Final = (1, 8)
"""This many ask at once, each over a connection that is kept."""


@dataclass(frozen=True)
class Scale:
    """Keys of the view, turns of each server, and seconds of a turn."""

    keys: int
    turns: int
    seconds: float


FULL: Final = Scale(100_000, 10, 3.0)
QUICK: Final = Scale(10_000, 4, 1.0)


@dataclass(frozen=True)
class Rates:
    """Look-ups of one row a second over N connections, turn by turn: both servers are there all the time."""

    connections: int
    with_bounds: tuple[float, ...]
    without: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median over the turns of the rate with limits, divided by the rate without."""
        return median(one / other for one, other in zip(self.with_bounds, self.without, strict=True))


def measure(folder: Path, scale: Scale, say: Callable[[str], None]) -> Iterator[Rates]:
    """The rates over one connection, and over several. Raises TandemError for an answer that is none."""
    publish(folder, scale.keys)
    paths = [f"/views/{VIEW}/row?key.page={quote(name, safe='')}" for name in questions(scale.keys, 1000)]
    with ExitStack() as stack:
        clients = [stack.enter_context(server(folder, command=command))[1] for command in (tandem_serve, _unbounded)]
        for client in clients:
            client.ask(paths[0])
        for number in CONNECTIONS:
            found: list[tuple[float, ...]] = []
            for turn in range(scale.turns):
                # Each turn begins with the other one.
                order = clients if turn % 2 else clients[::-1]
                rates = {id(client): _rate(client, number, paths, scale.seconds) for client in order}
                found.append(tuple(rates[id(client)] for client in clients))
            with_bounds, without = zip(*found, strict=True)
            one = Rates(number, with_bounds, without)
            say(f"{number} connections: {median(with_bounds):,.0f} look-ups a second with bounds, {median(without):,.0f} without")
            yield one


def document(found: Sequence[Rates]) -> dict[str, Any]:
    """All figures."""
    return {"rates": [{**asdict(one), "ratio": one.ratio} for one in found]}


def table(found: Sequence[Rates]) -> Table:
    """The same for a person."""
    shown = Table("connections", "look-ups/s with bounds", "without", "with / without")
    for one in found:
        figures = (f"{median(one.with_bounds):,.0f}", f"{median(one.without):,.0f}", f"{one.ratio:.2f}")
        shown.add_row(str(one.connections), *figures)
    return shown


def _unbounded(folder: Path) -> Sequence[str]:
    return ["-m", "tandem.bench.serving.unbounded", str(folder)]


def _rate(client: Client, connections: int, paths: Sequence[str], seconds: float) -> float:
    counts = [0] * connections
    until = time.perf_counter() + seconds

    def ask(number: int) -> None:
        own = client.another()
        while time.perf_counter() < until:
            own.ask(paths[counts[number] % len(paths)])
            counts[number] += 1
        own.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds
