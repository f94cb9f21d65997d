"""Each principal has a rate and a number of concurrent requests; URLs, headers, bodies and responses are bounded."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tandem.serving.access.rights import VERBS
from tests.serving.http.served import Served, serving
from tests.serving.world import World, forty_hits


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return forty_hits(tmp_path_factory.mktemp("world"))


def test_requests_beyond_the_rate_are_refused_with_retry_after(world: World) -> None:
    served = Served(world, {"rate": 2, "burst": 3})
    other = {"Authorization": f"Bearer {served.token('other')}"}
    with served.asker() as asker:
        assert [asker.get("/views").status_code for _ in range(4)] == [200, 200, 200, 429]
        refused = asker.get("/views")
        assert refused.headers["retry-after"] == "1"
        assert "try again in 0.5 s" in refused.json()["detail"]
        assert asker.get("/views", headers=other).status_code == 200
        assert asker.get("/healthz").status_code == 200
        served.seconds += 0.5
        assert [asker.get("/views").status_code for _ in range(2)] == [200, 429]


@pytest.mark.anyio
async def test_too_many_concurrent_requests_are_refused(world: World) -> None:
    served = Served(world, {"concurrent": 1, "wait_s": 1})
    async with served.client() as client:
        waiting = asyncio.create_task(client.get('/views/ever/rows?min_position={"T":{"0":99}}'))
        while not served.server.limits._uses:  # noqa: ASYNC110 - the server has no event for tests
            await asyncio.sleep(0)
        assert (await client.get("/views")).status_code == 429
        assert (await waiting).status_code == 504
        assert (await client.get("/views")).status_code == 200


def test_streams_of_one_token_are_bounded_and_count_among_its_requests(world: World) -> None:
    served = Served(world, {"concurrent": 3, "concurrent_streams": 2, "streams": 20})
    one, other = ({"Authorization": f"Bearer {served.token(name)}"} for name in ("streaming one", "streaming other"))
    with serving(served) as address, httpx.Client(base_url=address, timeout=60) as client, ExitStack() as stack:
        path = "/views/per_page/changes"
        for headers in (one, one, other):
            assert stack.enter_context(client.stream("GET", path, headers=headers)).status_code == 200
        refused = client.get(path, headers=one)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "2 streams of this token are open" in refused.json()["detail"]
        assert client.get("/views", headers=one).status_code == 200
        assert stack.enter_context(client.stream("GET", path, headers=other)).status_code == 200
        assert sorted(use.running for use in served.server.limits._uses.values()) == [2, 2]


@pytest.mark.anyio
async def test_statements_of_one_token_leave_a_slot_to_another(world: World) -> None:
    served = Served(world, {"statements": 2, "timeout_s": 60})
    headers = [{"Authorization": f"Bearer {served.token(name, may=('sql',))}"} for name in ("stating one", "stating other")]
    endless = {"statement": "SELECT count(*) FROM range(100000000000)"}
    async with served.client() as client:

        async def asked(statement: dict[str, str], who: int) -> httpx.Response:
            return await client.post("/sql", json=statement, headers=headers[who], timeout=60)

        assert (await asked({"statement": "SELECT 1"}, 0)).status_code == 200
        long = [asyncio.create_task(asked(endless, 0)) for _ in range(6)]
        while served.server.statements._places._queue._held.total() < 1:  # noqa: ASYNC110 - the server has no event for tests
            await asyncio.sleep(0)
        for _ in range(3):
            assert (await asked({"statement": "SELECT 1"}, 1)).status_code == 200
            assert served.server.statements._places._queue._held["token:stating one"] == 1
        for one in long:
            one.cancel()
        await asyncio.gather(*long, return_exceptions=True)


@pytest.mark.slow
def test_unread_responses_are_bounded_for_each_token(world: World) -> None:
    served = Served(world, {"unread_mb": 1})
    large = {"statement": "SELECT repeat('x', 600000)"}
    one, other = (served.token(name, may=("sql",)) for name in ("reading one", "reading other"))
    with served.asker(one) as asker, served.asker(other) as second:
        assert served.server.unread.take("token:reading one", 500_000)  # a response that nobody reads
        refused = asker.post("/sql", json=large)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "500000 bytes of responses to this token are not read yet" in refused.json()["detail"]
        assert asker.post("/sql", json={"statement": "SELECT 1"}).status_code == 200
        assert second.post("/sql", json={"statement": "SELECT repeat('x', 200000)"}).status_code == 200
        served.server.unread.give_back("token:reading one", 500_000)
        assert asker.post("/sql", json=large).status_code == 200
        assert served.server.unread._used == 0


def test_a_request_that_takes_too_long_ends(world: World) -> None:
    with Served(world, {"timeout_s": 1, "wait_s": 60}).asker() as asker:
        answer = asker.get('/views/ever/rows?min_position={"T":{"0":99}}')
        assert answer.status_code == 504
        assert answer.json()["detail"] == "no answer within 1 s; narrow the request"


def test_requests_are_bounded(world: World) -> None:
    with Served(world, {"body_kb": 1}).asker() as asker:
        assert asker.get("/views?" + "x" * (17 << 10)).status_code == 414
        assert asker.get("/views", headers={"X-Large": "x" * (33 << 10)}).status_code == 431
        large = asker.post("/views/per_page/lookup", json={"keys": [{"page": "x" * 2000}]})
        assert (large.status_code, large.json()["title"]) == (413, "Request Entity Too Large")
        chunked = asker.post("/views/per_page/lookup", content=iter_bytes(), headers={"Content-Type": "application/json"})
        assert chunked.status_code == 413


async def iter_bytes():
    for _ in range(10):
        yield b" " * 200


def test_responses_are_bounded(world: World) -> None:
    with Served(world, {"max_rows": 5}).asker() as asker:
        assert asker.get("/views/per_page/rows?limit=5").status_code == 200
        assert "the maximum is 5" in asker.get("/views/per_page/rows?limit=6").json()["detail"]
        keys = [{"page": f"/{n:02}"} for n in range(6)]
        assert asker.post("/views/per_page/lookup", json={"keys": keys[:5]}).status_code == 200
        assert "the limit is 5" in asker.post("/views/per_page/lookup", json={"keys": keys}).json()["detail"]
    served = Served(world)
    object.__setattr__(served.server, "settings", _Small(served.server.settings))
    with served.asker() as asker:
        assert "lower limit" in asker.get("/views/per_page/rows").json()["detail"]


class _Small:
    """Settings whose largest response is none at all, which no setting can say."""

    response_mb = 0

    def __init__(self, settings: object) -> None:
        self._settings = settings

    def __getattr__(self, name: str) -> object:
        return getattr(self._settings, name)


def test_metrics_name_routes_and_no_keys(world: World) -> None:
    with Served(world).asker() as asker:
        asker.get("/views/per_page/rows?key.page=/secret")
        asker.get("/views/nobody_knows")
        text = asker.get("/metrics").text
        assert 'tandem_http_request_seconds_count{method="GET",route="/views/{view}/rows",status="200"} 1.0' in text
        assert 'route="/views/{view}",status="404"} 1.0' in text
        assert "secret" not in text
        assert "nobody_knows" not in text
        assert "tandem_http_requests_running 1.0" in text
        assert 'tandem_http_refresh_seconds_count{outcome="read"}' in text


def test_questions_write_nothing(world: World) -> None:
    def files() -> set[Path]:
        return {path for path in world.state.rglob("*") if "access" not in path.parts}

    served = Served(world)
    secret = served.token("reader", may=VERBS)
    before = files()
    with served.asker(secret) as asker:
        asker.get("/views/per_page/rows")
        asker.get("/status")
    assert files() == before
