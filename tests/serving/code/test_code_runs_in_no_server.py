"""Code of a project runs in a process that reaches nothing; the server that starts it runs none, and answers the rest without."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from tandem.ledger.publish import releases
from tandem.serving.code import release as of_release
from tandem.views.project import isolated_import
from tests.serving.code.coded import coded, files
from tests.serving.http.served import Asker, Served
from tests.serving.world import NOON, World, hit, position


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("coded")
    (folder / "project").mkdir()
    return coded(folder)


@pytest.fixture
def served(world: World, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A server in this process, which fails the test if it imports definitions."""

    def imported(*_: Any) -> None:
        raise AssertionError("the server imports definitions")

    monkeypatch.setattr(isolated_import, "import_definitions", imported)
    monkeypatch.setattr("tandem.views.project.project.import_definitions", imported)
    monkeypatch.setenv("SERVER_SECRET", "of the server")
    return Served(world, change={"timeout_s": 20})


@pytest.fixture
def asker(served: Served) -> Iterator[Asker]:
    with served.asker() as found:
        yield found


def rows(asker: Asker, view: str) -> list[dict[str, Any]]:
    found = asker.get(f"/views/{view}/rows")
    assert found.status_code == 200, found.text
    return found.json()["rows"]


def zygote(served: Served) -> int | None:
    return served.server.definitions.nursery.pid


def test_views_without_functions_start_no_process(asker: Asker, served: Served) -> None:
    assert [row["n"] for row in rows(asker, "plain")] == [2, 2, 2]
    assert asker.get("/views/plain/row?key.page=/1&window=2026-11-01T12:00:00Z").json()["row"]["bytes"] == 7
    assert asker.post("/sql", json={"statement": "SELECT sum(n) AS n FROM plain"}).json()["rows"] == [{"n": 6}]
    assert {one["name"] for one in asker.get("/views").json()["views"]} >= {"plain", "coded", "hangs"}
    assert asker.get("/views/coded").json()["measures"] == ["n", "own", "some"]
    assert asker.get("/sources/own").json()["decoder"] == "decoder"
    assert asker.get("/readyz").status_code == 200
    assert zygote(served) is None
    assert served.server.code_lane.if_open is None


def test_functions_have_no_access_to_anything(asker: Asker, world: World) -> None:
    folder = world.folder.parent
    before = files(folder)
    for row, total in zip(rows(asker, "coded"), (5, 7, 9), strict=True):
        assert row["own"] == f"{total}; nothing; nothing"
    assert asker.get("/views/coded/row?key.page=/1").json()["row"]["own"] == "7; nothing; nothing"
    sql = asker.post("/sql", json={"statement": "SELECT own, p.n FROM coded c JOIN plain p ON c.page = p.page ORDER BY 1"})
    assert sql.status_code == 200, sql.text
    found = sql.json()["rows"]
    assert found == [{"own": f"{total}; nothing; nothing", "n": 2} for total in (5, 7, 9)]
    keys = asker.post("/views/coded/lookup", json={"keys": [{"page": "/2"}, {"page": "/9"}]}).json()
    assert [row["own"] for row in keys["rows"]] == ["9; nothing; nothing"]
    assert files(folder) == before
    assert (folder / "keep").read_text() == "a file"


@pytest.mark.parametrize(
    ("view", "why"),
    [
        ("raises", "Own.present raised ValueError: not today"),
        ("lies", "Own.present returned an array of type int64; expected string"),
        ("crashes", "present ended its process"),
        ("eats", "MemoryError"),
        ("hangs", "present took more than its 5 seconds"),
    ],
)
def test_a_function_that_fails_is_one_problem(asker: Asker, view: str, why: str) -> None:
    found = asker.get(f"/views/{view}/rows")
    assert found.status_code == 503
    assert found.headers["content-type"] == "application/problem+json"
    assert f"view '{view}', measure 'own': " in found.json()["detail"]
    assert why in found.json()["detail"]
    assert rows(asker, "coded")[0]["own"] == "5; nothing; nothing"
    assert rows(asker, "plain")[0]["n"] == 2
    refused_for_a_while = "the next try is in " in asker.get(f"/views/{view}/rows").json()["detail"]
    assert refused_for_a_while == (view in {"crashes", "hangs"})


def test_other_requests_are_answered_while_a_function_hangs(served: Served) -> None:
    async def told() -> tuple[int, int]:
        async with served.client() as client:
            await client.get("/views/coded/rows")  # the process is there
            hanging = asyncio.create_task(client.get("/views/hangs/rows"))
            answered = 0
            while not hanging.done():
                async with asyncio.timeout(2):
                    answered += (await client.get("/views/plain/rows")).status_code == 200
                    row = await client.get("/views/plain/row?key.page=/1&window=2026-11-01T12:00:00Z")
                    answered += row.status_code == 200
            return answered, (await hanging).status_code

    answered, status = asyncio.run(told())
    assert status == 503
    assert answered >= 20


def test_no_function_delays_the_follower(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    moved = coded(tmp_path)
    served = Served(moved, change={"timeout_s": 20})

    async def told() -> list[int]:
        async with served.client() as client:
            for view in ("coded", "hangs", "crashes"):
                await client.get(f"/views/{view}/rows")
            moved.append(0, hit("/0", 10))
            moved.trigger(position(7))
            seen = []
            async with asyncio.timeout(10):
                for view in ("plain", "coded"):
                    found = await client.get(f"/views/{view}/rows", params={"min_position": '{"T":{"0":7}}'})
                    seen.append(found.json()["rows"][0]["n"])
            return seen

    assert asyncio.run(told()) == [3, 3]


def test_the_process_of_a_release_ends_with_it(world: World, tmp_path: Path) -> None:
    moved = world.moved(tmp_path / "project")
    served = Served(moved, change={"timeout_s": 20})
    definitions = served.server.definitions
    now = [0.0]
    definitions.clock = lambda: now[0]
    with served.asker() as asker:
        assert rows(asker, "coded")
        pid = zygote(served)
        assert pid is not None
        assert len(psutil.Process(pid).children()) == 1
        definitions.live(1)
        assert len(psutil.Process(pid).children()) == 1
        definitions.live(2)  # what a look finds after a promotion or a rollback
        now[0] += 60
        definitions.live(2)
        over = time.monotonic() + 10
        while any(one.status() != psutil.STATUS_ZOMBIE for one in psutil.Process(pid).children()):
            assert time.monotonic() < over
        assert rows(asker, "coded")[0]["own"] == "5; nothing; nothing"
    with pytest.raises(psutil.NoSuchProcess):
        psutil.Process(pid)


def test_a_release_without_a_document_is_described_by_its_process(world: World, tmp_path: Path) -> None:
    moved = world.moved(tmp_path / "project")
    DeltaTable(moved.tables.control("documents")).delete()
    served = Served(moved, change={"timeout_s": 20})
    with served.asker() as asker:
        assert rows(asker, "plain")[0]["n"] == 2
        assert rows(asker, "coded")[0]["own"] == "5; nothing; nothing"
        assert zygote(served) is not None


def test_records_are_decoded_by_the_process(served: Served, world: World) -> None:
    definitions = served.server.definitions
    live = definitions.project(releases.load(world.tables, 1))
    found = definitions.read(live.sources["own"], "own", [hit("/1", 1), b"{"], [{}, {}], NOON)
    assert found.keys == [b"nothing", None]  # the page of what was decoded there says what code could do
    assert [(fault.record, fault.reason) for fault in found.faults] == [(1, "refused")]
    with pytest.raises(of_release.CodeFailed, match="decoding took more than its 5 seconds"):
        definitions.read(live.sources["own"], "own", [b'{"hang": 1}'], [{}], NOON)
    plain = definitions.read(live.sources["hits"], "hits", [hit("/1", 1)], [{}], NOON)
    assert (plain.keys, plain.faults) == ([None], [])
    definitions.close()


def test_many_threads_share_one_process(served: Served, world: World) -> None:
    definitions = served.server.definitions
    live = definitions.project(releases.load(world.tables, 1))
    found = definitions.read(live.sources["own"], "own", [hit("/1", 1)], [{}], NOON).keys

    def ask() -> None:
        found.extend(definitions.read(live.sources["own"], "own", [hit("/1", 1)], [{}], NOON).keys)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"nothing"] * 9
    assert zygote(served) is not None
    assert len(psutil.Process(zygote(served)).children()) == 1
    definitions.close()
