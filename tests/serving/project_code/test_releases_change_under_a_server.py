"""A server runs the code of live, standing, earlier and rolled-back releases in one process, and mixes up no two of them."""

import threading
import time
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.cli.__main__ import main
from tandem.ledger import cut_decision
from tandem.ledger.publish import adoption
from tandem.ledger.publish.batch_parts import BatchPart, BatchView
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.standing import StandingReleases
from tandem.ledger.realtime_writer import Writer
from tandem.views.project import project
from tests.serving.http.served import Served
from tests.serving.project_code.coded import started
from tests.serving.world import NOON, SOURCE, World, hit, position

MODULE = """
PREFIX, GAP = "first", 1
"""
PROJECT = """
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import msgspec
import pyarrow as pa

from texts import GAP, PREFIX
from tandem import CustomMeasure, Event, Scale, Source, View, count, session


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
        return pa.array([f"{PREFIX}: {one}" for one in states.to_pylist()], pa.string())


class Hit(Event):
    moment: datetime
    page: str | None
    bytes: int
    price: Annotated[Decimal, Scale(2)]


def decoder(value: bytes) -> Hit:
    if value == b"no":
        raise ValueError(f"{PREFIX} refuses")
    return msgspec.json.decode(value, type=Hit)


hits = Source(topic="hits", event=Hit, event_time="moment", decoder=decoder)
own = View(hits, keys={"page": "page"}, measures={"n": count(), "own": Own("bytes")})
sessions = View(hits, keys={"page": "page"}, window=session(minutes=GAP), measures={"own": Own("bytes")})
SOURCES = (hits,)
VIEWS = (own, sessions)
"""


def beside(world: World, folder: Path) -> World:
    """Release 2 with other code, ready beside the live one: its batch views below 4 of the 8 events, and its realtime views."""
    folder.mkdir()
    (folder / "tandem.toml").touch()
    (folder / "definitions.py").write_text(PROJECT)
    (folder / "texts.py").write_text('PREFIX, GAP = "second", 30')
    live = Publications(world.tables).latest()
    assert live is not None
    found = copy(world)
    found.project = project.load(folder)
    release = adoption.adopt(world.tables, found.project, by="test", at=NOON)
    assert release.number == 2
    views = {name: BatchView(fingerprint, ()) for name, fingerprint in release.views.items()}
    found.live = replace(live, release=2, kind="apply", at=NOON, views=views)
    parts = {name: BatchPart(1, found.write_version(name, 1, position(4)), position(4)) for name in views}
    found.live = replace(found.live, views={name: replace(one, parts=(parts[name],)) for name, one in views.items()})
    cut_decision.begin(world.tables, 2, SOURCE, position(4), by="test", at=NOON)
    StandingReleases(world.tables).record("built", found.live)
    found.writer = Writer.claim(world.tables, 2, SOURCE, by="test", at=NOON)
    found.trigger()
    return found


def test_each_answer_is_of_one_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "texts.py").write_text(MODULE)
    world = World(tmp_path / "project", definitions=PROJECT)
    world.append(0, *(hit(f"/{n % 2}", n, minute=n) for n in range(8)))
    world.trigger(position(4))
    world.recompute(position(4))
    world.trigger()
    other = beside(world, tmp_path / "other")
    secret = Served(world).token("asking", days=3650, may=("read", "ingest", "sql"))
    headers = {"Authorization": f"Bearer {secret}"}

    def run(*command: str) -> None:
        assert main([*command, "--project", str(world.folder), "--json"]) == 0, capsys.readouterr().err

    with started(world.folder) as (_, address), httpx.Client(base_url=address, headers=headers, timeout=60) as client:
        over, seen = threading.Event(), list[tuple[str, ...]]()

        def ask() -> None:
            with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
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

        def rows(query: str) -> list[dict[str, Any]]:
            found = client.get(query)
            assert found.status_code == 200, found.text
            return found.json()["rows"]

        def check(prefix: str, sessions: int) -> None:
            """Window, decoder and SQL are of the live release, and an earlier publication is of its own."""
            found = rows("/views/sessions/rows")
            assert len(found) == sessions
            assert {row["own"].partition(":")[0] for row in found} == {prefix}
            refused = client.post("/sources/hits/events", content=b"no", headers={"Content-Type": "text/plain"})
            assert refused.status_code == 422
            assert f"{prefix} refuses" in refused.json()["detail"]
            sql = client.post("/sql", json={"statement": "SELECT o.own FROM own o"})
            assert sql.status_code == 200, sql.text
            assert {row["own"].partition(":")[0] for row in sql.json()["rows"]} == {prefix}
            assert [row["own"] for row in rows("/views/own/rows?publication=2")] == ["first: 2", "first: 4"]

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            answered("first: 12", "first: 16")
            check("first", 8)
            run("promote", "2", "--max-lag", "0")
            answered("second: 12", "second: 16")
            check("second", 2)
            world.append(0, hit("/0", 100, minute=9))
            for one in (world, other):
                one.trigger()
            answered("second: 112", "second: 16")
            run("rollback", "--why", "the first one is right")
            answered("first: 112", "first: 16")
            check("first", 9)
            world.append(0, hit("/1", 1000, minute=9))
            for one in (world, other):
                one.trigger()
            answered("first: 112", "first: 1016")
        finally:
            over.set()
            asking.join()
    for rows_ in seen:
        assert len({row.partition(":")[0] for row in rows_}) == 1, rows_
