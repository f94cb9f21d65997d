"""Three servers behind the proxy without stickiness, while commits, recomputes and promotions land and one server is killed.

Each answer equals a plain fold of the events below the position that it names, and none of a client's answers is older than the
one before.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.infra.process import ports
from tandem.serving.access import tokens
from tandem.serving.access.rights import Rights
from tests.serving.http.test_several_servers_behind_a_proxy import HAPROXY, answers, proxy, until
from tests.serving.two_releases import applied, build, edited, promote
from tests.serving.world import World, hit
from tests.stack import PYTHONPATH

QUESTIONS = 10_000
CLIENTS = 4
PAGES = tuple(f"/{number}" for number in range(8))
WINDOW = "2026-11-01T12:00:00Z"
Row = dict[str, Any]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed: apt install haproxy")]


@dataclass
class PlainFold:
    """What the log has below each position at which a commit ended, by page, in plain Python."""

    now: dict[str, tuple[int, int, int, Decimal]] = field(default_factory=dict)
    below: dict[tuple[int, int], Mapping[str, tuple[int, int, int, Decimal]]] = field(default_factory=dict)

    def add(self, page: str, size: int, price: str) -> None:
        n, total, largest, paid = self.now.get(page, (0, 0, 0, Decimal()))
        self.now[page] = n + 1, total + size, max(largest, size), paid + Decimal(price)

    def rows(self, place: tuple[int, int]) -> dict[str, Row]:
        return {
            page: {"page": page, "n": n, "bytes": total, "largest": largest, "price": str(paid), "mean": total / n}
            for page, (n, total, largest, paid) in self.below[place].items()
        }


@dataclass
class Writing:
    """Events, commits, batch versions and releases, one after the other, until the questions are answered."""

    world: World
    fold: PlainFold = field(default_factory=PlainFold)
    done: threading.Event = field(default_factory=threading.Event)
    publications: int = 1

    def run(self) -> int:
        draw, commits = random.Random(1), 0
        while not self.done.wait(0.02):
            commits += 1
            self.commit(draw)
            if commits % 80 == 0:
                self.release(commits)
            elif commits % 20 == 0:
                self.world.recompute(self.world.end)
                self.publications += 1
        return commits

    def commit(self, draw: random.Random) -> None:
        for _ in range(draw.randint(1, 5)):
            page, size, price = draw.choice(PAGES), draw.randint(0, 100), f"{draw.randint(0, 99) / 100:.2f}"
            self.world.append(draw.randint(0, 1), hit(page, size, price=price))
            self.fold.add(page, size, price)
        self.fold.below[len(self.world.log[0]), len(self.world.log[1])] = dict(self.fold.now)
        self.world.trigger()

    def release(self, number: int) -> None:
        self.world = applied(self.world, edited("a comment") + f"# {number}\n")
        self.world.trigger()
        build(self.world, self.world.end)
        promote(self.world)
        self.publications += 1


@dataclass
class Asking:
    """One client's questions to the proxy, each checked; `http` asks for monotonic reads."""

    http: httpx.Client
    fold: PlainFold
    seed: int
    tally: Counter[str]
    seen: str = "1"
    last: tuple[int, int, int] = (0, 0, 0)

    def ask(self, questions: int) -> None:
        draw = random.Random(self.seed)
        for _ in range(questions):
            kind = draw.choices(("row", "rows", "lookup", "pages"), (6, 3, 2, 1))[0]
            getattr(self, kind)(draw.choice(PAGES))
            self.tally[kind] += 1

    def row(self, page: str) -> None:
        document = self.answer("GET", "row", params={"key.page": page, "window": WINDOW})
        self.check([document["row"]] if document["row"] else [], document, {page})

    def rows(self, _: str) -> None:
        document = self.answer("GET", "rows")
        self.check(document["rows"], document, set(PAGES))

    def lookup(self, page: str) -> None:
        pages = {page, PAGES[0], PAGES[-1]}
        document = self.answer("POST", "lookup", json={"keys": [{"page": each} for each in pages]})
        self.check(document["rows"], document, pages)

    def pages(self, _: str) -> None:
        """All pages of one snapshot, each from whichever server."""
        document = self.answer("GET", "rows", params={"limit": 3})
        rows, provenance = document["rows"], document["provenance"]
        while document["next"] is not None:
            document = self.answer("GET", "rows", params={"limit": 3, "cursor": document["next"]})
            assert document["provenance"] == provenance
            rows += document["rows"]
        self.check(rows, document, set(PAGES), later=False)

    def answer(self, method: str, path: str, **how: Any) -> Any:
        while True:
            try:
                response = self.http.request(method, f"/views/per_page/{path}", headers={"Tandem-Monotonic": self.seen}, **how)
            except httpx.TransportError:
                self.tally["broken"] += 1
                continue
            if response.status_code in (502, 503, 504):
                self.tally[f"status {response.status_code}"] += 1
                continue
            assert response.status_code == 200, (response.status_code, response.text)
            self.seen = response.headers["Tandem-Monotonic"]
            return response.json()

    def check(self, rows: list[Row], document: Any, pages: set[str], *, later: bool = True) -> None:
        provenance = document["provenance"]
        (offsets,) = provenance["realtime"].values() or [{}]
        place = offsets.get("0", 0), offsets.get("1", 0)
        expected = {page: row for page, row in self.fold.rows(place).items() if page in pages}
        assert {row["page"]: {name: row[name] for name in PLAIN} for row in rows} == expected, provenance
        assert len(rows) == len(expected)
        now = (provenance["publication"], *place)
        if later:
            assert all(new >= old for new, old in zip(now, self.last, strict=True)), (now, self.last)
            self.last = now


PLAIN = ("page", "n", "bytes", "largest", "price", "mean")


@contextmanager
def server(world: World, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process of `tandem serve`, which answers once this context is entered."""
    command = [sys.executable, "-P", "-m", "tandem.cli", "serve", "--port", str(port), "--project", str(world.folder)]
    with (world.folder / f"serve-{port}.log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": PYTHONPATH}, stdout=log, stderr=log)
    try:
        until(lambda: answers(f"http://127.0.0.1:{port}"))
        yield process
    finally:
        process.kill()
        process.wait()


def test_none_of_ten_thousand_answers_is_wrong_or_older(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tmp_path)
    (tmp_path / "tandem.toml").write_text('[serving]\nhot = "off"\nconnections_per_address = 2000\n')
    writing, now = Writing(world), datetime.now(UTC)
    writing.commit(random.Random(0))
    rights, expires = Rights.of(may=["read"]), now + timedelta(days=1)
    secret = tokens.create(world.tables, "asker", rights, expires=expires, now=now, random=os.urandom)[1]
    tally: Counter[str] = Counter()
    with ExitStack() as stack:
        chosen = [ports.unused() for _ in range(3)]
        processes = [stack.enter_context(server(world, port)) for port in chosen]
        shown = {f"127.0.0.1:{8641 + number}": f"http://127.0.0.1:{port}" for number, port in enumerate(chosen)}
        sticky = "    balance hdr(Authorization)\n    hash-type consistent\n"
        address = stack.enter_context(proxy(tmp_path, {**shown, sticky: "    balance roundrobin\n"}))
        until(lambda: answers(address))
        threads = stack.enter_context(ThreadPoolExecutor(CLIENTS + 1))
        writer = threads.submit(writing.run)
        stack.callback(writing.done.set)
        headers = {"Authorization": f"Bearer {secret}"}
        clients = [stack.enter_context(httpx.Client(base_url=address, headers=headers, timeout=60)) for _ in range(CLIENTS)]
        each = [threads.submit(Asking(http, writing.fold, n, tally).ask, QUESTIONS // CLIENTS) for n, http in enumerate(clients)]
        until_asked(tally, QUESTIONS // 3)
        processes[1].send_signal(signal.SIGKILL)
        for asking in each:
            asking.result()
        writing.done.set()
        commits = writer.result()
    faults = sum(count for what, count in tally.items() if what == "broken" or what.startswith("status"))
    with capsys.disabled():
        sys.stdout.write(f"\n{dict(tally)}; {commits} commits, {writing.publications} publications\n")
    assert commits > 100
    assert writing.publications > 5
    assert faults < QUESTIONS // 100


def until_asked(tally: Counter[str], questions: int) -> None:
    deadline = time.monotonic() + 600
    while sum(tally.values()) < questions:
        assert time.monotonic() < deadline
        time.sleep(0.1)
