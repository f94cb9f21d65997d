"""While `promote` and `rollback` change the live release, its own code answers each question; the other one's process ends."""

import threading
import time
from copy import copy
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from tandem.cli.__main__ import main
from tandem.ledger import cuts
from tandem.ledger.publish import adoption, publications, standing
from tandem.ledger.publish.batch_parts import BatchView, Part
from tandem.ledger.realtime_writer import Writer
from tandem.serving.code import server_definitions
from tandem.views.project import project
from tests.serving.code.test_hostile_code_starves_nobody import started
from tests.serving.http.served import Served
from tests.serving.world import NOON, SOURCE, World, hit, position

PROJECT = """
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import pyarrow as pa

from tandem import CustomMeasure, Event, Scale, Source, View, count


@dataclass(frozen=True)
class Own(CustomMeasure):
    expression: str
    state = pa.int64()
    answer = pa.string()

    @property
    def inputs(self):
        return (self.expression,)

    def partial(self, groups):
        return pa.array([sum(v["v0"] for v in one) for one in groups.to_pylist()], pa.int64())

    def merge(self, groups):
        return pa.array([sum(one) for one in groups.to_pylist()], pa.int64())

    def present(self, states):
        return pa.array([f"first: {one}" for one in states.to_pylist()], pa.string())


class Hit(Event):
    moment: datetime
    page: str | None
    bytes: int
    price: Annotated[Decimal, Scale(2)]


hits = Source(topic="hits", event=Hit, event_time="moment")
own = View(hits, keys={"page": "page"}, measures={"n": count(), "own": Own("bytes")})
SOURCES = (hits,)
VIEWS = (own,)
"""


def beside(world: World, folder: Path) -> World:
    """Release 2 with other code, ready beside the live one: its batch view below 4 of the 8 events, and its realtime views."""
    folder.mkdir()
    (folder / "tandem.toml").touch()
    (folder / "definitions.py").write_text(PROJECT.replace("first:", "second:"))
    live = publications.latest(world.tables)
    assert live is not None
    found = copy(world)
    found.project = project.load(folder)
    release = adoption.adopt(world.tables, found.project, by="test", at=NOON)
    assert release.number == 2
    found.live = replace(live, release=2, kind="apply", at=NOON, views={"own": BatchView(release.views["own"], ())})
    rows = found.write_version("own", 1, position(4))
    found.live = replace(found.live, views={"own": BatchView(release.views["own"], (Part(1, rows, position(4)),))})
    cuts.begin(world.tables, 2, SOURCE, position(4), by="test", at=NOON)
    standing.record(world.tables, "built", found.live)
    found.writer = Writer.claim(world.tables, 2, SOURCE, by="test", at=NOON)
    found.trigger()
    return found


def test_each_answer_is_of_one_release_and_processes_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "project").mkdir()
    world = World(tmp_path / "project", definitions=PROJECT)
    world.append(0, *(hit(f"/{n % 2}", n, minute=n) for n in range(8)))
    world.trigger(position(4))
    world.recompute(position(4))
    world.trigger()
    other = beside(world, tmp_path / "other")
    secret = Served(world).token("asking", days=3650)

    def run(*command: str) -> None:
        assert main([*command, "--project", str(world.folder), "--json"]) == 0, capsys.readouterr().err

    with started(world.folder) as (process, address):
        over, seen = threading.Event(), list[tuple[str, ...]]()

        def ask() -> None:
            with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
                while not over.is_set():
                    answer = client.get("/views/own/rows")
                    assert answer.status_code == 200, answer.text
                    seen.append(tuple(row["own"] for row in answer.json()["rows"]))

        def answered(*expected: str) -> None:
            """Some answer is this from now on."""
            until, before = time.monotonic() + 60, len(seen)
            while expected not in seen[before:]:
                assert time.monotonic() < until, seen[-1:]
                assert asking.is_alive()
                time.sleep(0.02)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            answered("first: 12", "first: 16")
            run("promote", "2", "--max-lag", "0")
            answered("second: 12", "second: 16")
            world.append(0, hit("/0", 100, minute=9))
            for one in (world, other):
                one.trigger()
            answered("second: 112", "second: 16")
            zygote = max(psutil.Process(process.pid).children(recursive=True), key=lambda one: len(one.children()))
            until = time.monotonic() + 6 * server_definitions.IDLE_S
            while len([one for one in zygote.children() if one.status() != psutil.STATUS_ZOMBIE]) > 1:
                assert time.monotonic() < until
                time.sleep(0.1)
            run("rollback", "--why", "the first one is right")
            answered("first: 112", "first: 16")
            world.append(0, hit("/1", 1000, minute=9))
            for one in (world, other):
                one.trigger()
            answered("first: 112", "first: 1016")
        finally:
            over.set()
            asking.join()
    for rows in seen:
        assert len({row.partition(":")[0] for row in rows}) == 1, rows
