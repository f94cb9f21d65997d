"""Code of a project that raises, lies or hangs is a problem of its own question; it stops neither other questions nor polls."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving.http.served import Asker, Served
from tests.serving.project_code.coded import coded, failing, started
from tests.serving.world import World, hit, position

CHANGE = {"timeout_s": 8, "wait_s": 8}
ROW = "/views/plain/row?key.page=/1&window=2026-11-01T12:00:00Z"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return coded(tmp_path_factory.mktemp("coded"))


@pytest.fixture
def served(world: World) -> Served:
    return Served(world, change=CHANGE)


@pytest.fixture
def asker(served: Served) -> Iterator[Asker]:
    with served.asker() as found:
        yield found


def rows(asker: Asker, view: str) -> list[dict[str, Any]]:
    found = asker.get(f"/views/{view}/rows")
    assert found.status_code == 200, found.text
    return found.json()["rows"]


@pytest.fixture
def patient(world: World) -> Iterator[Asker]:
    """For questions that no limit ends: the first statement of SQL starts a process, and a busy machine takes its time."""
    with Served(world, change={"timeout_s": 60}).asker() as found:
        yield found


@pytest.mark.slow
def test_own_measures_answer_every_question(patient: Asker, world: World) -> None:
    asker = patient
    assert [row["own"] for row in rows(asker, "coded")] == ["total 5", "total 7", "total 9"]
    assert [row["some"] for row in rows(asker, "coded")] == ["total 4", "total 5", "total 9"]
    assert asker.get("/views/coded/row?key.page=/1").json()["row"]["own"] == "total 7"
    joined = "SELECT own, p.n FROM coded c JOIN plain p ON c.page = p.page ORDER BY 1"
    found = asker.post("/sql", json={"statement": joined}).json()["rows"]
    assert found == [{"own": f"total {one}", "n": 2} for one in (5, 7, 9)]
    keys = asker.post("/views/coded/lookup", json={"keys": [{"page": "/2"}, {"page": "/9"}]}).json()
    assert [row["own"] for row in keys["rows"]] == ["total 9"]
    assert asker.get("/views/coded/rows?publication=2").json()["rows"][0]["own"] == "total 1"
    with failing(world, "raises"):
        refused = asker.post("/sql", json={"statement": "SELECT * FROM raises"})
    assert refused.status_code == 503
    assert "view 'raises', measure 'own': Own.present raised ValueError: not today" in refused.json()["detail"]


@pytest.mark.each_run("raises*", "lies*")
@pytest.mark.parametrize(
    ("view", "why"),
    [
        ("raises", "Own.present raised ValueError: not today"),
        ("lies", "Own.present returned an array of type int64; expected string"),
        ("hangs", "Own.present took more than half of serving.timeout_s and was interrupted"),
    ],
)
def test_a_measure_that_fails_is_one_problem(request: pytest.FixtureRequest, world: World, view: str, why: str) -> None:
    asker: Asker = request.getfixturevalue("asker" if view == "hangs" else "patient")
    with failing(world, view):
        found = asker.get(f"/views/{view}/rows")
        assert found.status_code == 503, found.text
        assert found.headers["content-type"] == "application/problem+json"
        assert f"view '{view}', measure 'own': {why}" in found.json()["detail"]
        assert rows(asker, "coded")[0]["own"] == "total 5"
        assert rows(asker, "plain")[0]["n"] == 2
    if view != "lies":
        assert rows(asker, view)[0]["own"] == "total 21"


@pytest.mark.slow
def test_other_questions_are_answered_after_one_that_hangs(served: Served, world: World) -> None:
    async def told() -> tuple[int, ...]:
        async with served.client() as client:
            await client.get("/views/plain/rows")
            hanging = asyncio.create_task(client.get("/views/hangs/rows"))
            await served.server.lane.settled()  # it has its turn, which then blocks no look-up
            statuses = [(await client.get(ROW)).status_code]
            early = hanging.done()
            statuses.append((await client.get("/views/plain/rows?limit=1")).status_code)
            assert not early
            return (*statuses, (await hanging).status_code)

    with failing(world, "hangs"):
        assert asyncio.run(told()) == (200, 200, 503)
    assert [line["place"].partition(":")[0] for line in served.lines if "place" in line] == ["definitions.py"]
    assert [line["function"] for line in served.lines if "place" in line] == ["Own.present"]


@pytest.mark.slow
def test_no_measure_stops_polls(tmp_path: Path) -> None:
    moved = coded(tmp_path)
    views = ("merge_hangs", "merge_raises")
    with Served(moved, change=CHANGE).asker() as asker:
        for one in ("plain", *views):
            rows(asker, one)
        with failing(moved, "hangs", "raises"):
            moved.append(0, hit("/0", 10))
            moved.trigger(position(7))
            found = asker.get("/views/plain/rows", params={"min_position": '{"T":{"0":7}}'})
            assert found.json()["rows"][0]["n"] == 3
            for view in views:
                refused = asker.get(f"/views/{view}/rows")
                assert refused.status_code == 503
                assert f"view '{view}', measure 'own': Own.merge" in refused.json()["detail"]
        for view in views:
            assert rows(asker, view)[0]["own"] == "total 31"


@pytest.mark.slow
def test_a_decoder_that_hangs_is_one_problem(asker: Asker, world: World) -> None:
    def sent(source: str, body: bytes) -> httpx.Response:
        return asker.post(f"/sources/{source}/events", content=body, headers={"Content-Type": "application/x-ndjson"})

    with failing(world, "hangs"):
        found = sent("own", b"{}\n{}\n{}")
        assert found.status_code == 503
        assert "definitions.py:" in found.json()["detail"]
        assert "code of the project took more than half of serving.timeout_s and was interrupted" in found.json()["detail"]
        assert sent("hits", b"{").status_code == 422
    assert sent("own", b"{").status_code == 422


def test_a_server_that_code_stops_ends_with_its_stack(world: World) -> None:
    secret = Served(world).token("asks", days=3650)
    with (
        started(world.folder, TANDEM_SERVING_TIMEOUT_S="2") as (process, address),
        httpx.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client,
    ):
        assert client.get("/views/plain/rows").status_code == 200
        with failing(world, "holds"), pytest.raises(httpx.HTTPError):
            client.get("/views/holds/rows")
        assert process.wait(60) == 1
    stack = (world.folder / "stderr").read_text()
    assert '>/definitions.py", line ' in stack
    assert "in present" in stack
