"""Servers of one project are replicas: cursors, tokens of changes, tokens of callers and monotonic reads hold at each of them."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.ledger.log.positions import LOG_START
from tandem.serving.access import tokens
from tandem.serving.client import server_client as clients
from tandem.serving.http.protocol.media_types import MEDIA
from tests.serving import oracle
from tests.serving.http.served import Asker, Served, serving
from tests.serving.world import DEFINITIONS, NOON, World, hit, position

SELDOM_S = 60
SELDOM = {"poll_ms": SELDOM_S * 1000}
"""Settings of a server that reads no newer commit unless a request makes it."""
WITH_QUANTILES = DEFINITIONS.replace("import Event,", "import Event, approx_quantiles,").replace(
    '"mean": mean("bytes")}', '"mean": mean("bytes"), "typical": approx_quantiles("bytes", (0.5, 0.9))}'
)


def grow(world: World, seed: int) -> None:
    world.append(seed % 2, *(hit(f"/{n:02}", n + seed, minute=n) for n in range(20)))
    world.trigger()


def advance(world: World, *servers: Asker) -> None:
    """Let servers count all of the log, so that none is at an earlier snapshot any more."""
    for asker in servers:
        answer = asker.get("/views/inverse/rows", params={"min_position": json.dumps(world.end.to_json())})
        assert answer.status_code == 200


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    grow(made, 0)
    return made


@contextmanager
def two(world: World, secret: str | None = None, **change: Any) -> Iterator[tuple[Asker, Asker]]:
    """Two servers over the world's tables; each polls only while it is asked."""
    with ExitStack() as stack:
        one, other = (stack.enter_context(Served(world, change).asker(secret)) for _ in range(2))
        yield one, other


@pytest.mark.each_run("merged-None", "speed-None")
@pytest.mark.parametrize(("layer", "order"), [("merged", "-bytes"), ("merged", None), ("speed", None), ("batch", None)])
def test_pages_go_on_at_another_server(world: World, layer: str, order: str | None) -> None:
    if layer == "batch":
        world.recompute(world.end)
    expected = oracle.per_page(world.values(LOG_START, world.end))
    if order:
        expected.sort(key=lambda row: -row["bytes"])
    asked: dict[str, Any] = {"limit": 6, "layer": layer, **({"order": order} if order else {})}
    with two(world) as (one, other):
        page = one.get("/views/per_page/rows", params=asked).json()
        rows, provenance = page["rows"], page["provenance"]
        for seed in range(1, 20):
            if page["next"] is None:
                break
            grow(world, seed)
            if seed == 2:
                world.recompute(world.end)
            advance(world, one, other)
            page = (other, one)[seed % 2].get("/views/per_page/rows", params={**asked, "cursor": page["next"]}).json()
            assert page["provenance"] == provenance
            rows += page["rows"]
    assert oracle.unlabelled(rows) == expected


def test_a_cursor_of_another_publication_or_position_is_refused(world: World) -> None:
    grow(world, 1)
    world.recompute(world.end)
    grow(world, 2)
    with two(world) as (one, other):
        cursor = one.get("/views/per_page/rows?limit=6").json()["next"]
        parts = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        assert parts[4:] == [2, {"hits": world.end.to_json()}]
        grow(world, 3)
        advance(world, other)
        before = {"hits": position(20, 20).to_json()}
        for changed in ([1, parts[5]], [1, before], [2, before], [3, parts[5]], [2, {}], [0, {}]):
            text = urlsafe_b64encode(json.dumps([*parts[:4], *changed]).encode()).decode().rstrip("=")
            gone = other.get("/views/per_page/rows", params={"limit": 6, "cursor": text})
            assert (gone.status_code, gone.json().get("code")) == (410, "snapshot-expired"), changed
        assert other.get("/views/per_page/rows", params={"limit": 6, "cursor": cursor}).status_code == 200


def test_a_cursor_is_gone_everywhere_once_its_commits_are_merged(world: World) -> None:
    with two(world) as (one, other):
        cursor = one.get("/views/per_page/rows?limit=6").json()["next"]
        for seed in range(1, 4):
            grow(world, seed)
        assert world.compact()
        advance(world, other)
        gone = other.get("/views/per_page/rows", params={"limit": 6, "cursor": cursor})
        assert gone.status_code == 410
        assert "send the request again without the cursor" in gone.json()["detail"]


def test_pages_of_estimates_stay_at_their_server(tmp_path: Path) -> None:
    world = World(tmp_path, definitions=WITH_QUANTILES)
    grow(world, 0)
    with two(world) as (one, other):
        cursor = one.get("/views/per_page/rows?limit=6").json()["next"]
        gone = other.get("/views/per_page/rows", params={"limit": 6, "cursor": cursor})
        assert gone.status_code == 410
        assert "estimates" in gone.json()["detail"]
        assert one.get("/views/per_page/rows", params={"limit": 6, "cursor": cursor}).status_code == 200


def test_a_restricted_caller_pages_everywhere_and_sees_no_position(world: World) -> None:
    for minute in (61, 122):
        world.append(0, hit("/01", 7, minute=minute))
    world.trigger()
    secret = Served(world).token("bound", rows=["page=/01"])
    with two(world, secret) as (one, other):
        page = one.get("/views/per_page/rows?limit=1").json()
        pages = [page["rows"]]
        grow(world, 1)
        while page["next"] is not None:
            assert page["next"].startswith("sealed.")
            page = other.get("/views/per_page/rows", params={"limit": 1, "cursor": page["next"]}).json()
            pages.append(page["rows"])
    assert [[row["n"] for row in rows] for rows in pages] == [[1], [1], [1]]


@pytest.mark.parametrize("media", MEDIA)
def test_each_server_has_the_same_bytes_of_exact_columns(world: World, media: str) -> None:
    grow(world, 1)
    world.recompute(position(20))
    with two(world) as (one, other):
        answers = [
            asker.get(path, headers={"Accept": media})
            for path in ("/views/per_page/rows?order=-n", "/views/per_page/row?key.page=/07&window=2026-11-01T12:00")
            for asker in (one, other)
        ]
    assert [answer.content for answer in answers[::2]] == [answer.content for answer in answers[1::2]]
    assert [answer.headers["etag"] for answer in answers[::2]] == [answer.headers["etag"] for answer in answers[1::2]]


def test_a_revoked_token_is_refused_everywhere_within_the_stated_time(world: World) -> None:
    servers = Served(world), Served(world)
    secret = servers[0].token("reader")
    with servers[0].asker(secret) as one, servers[1].asker(secret) as other:
        assert {asker.get("/me").status_code for asker in (one, other)} == {200}
        tokens.revoke(world.tables, "reader", now=NOON)
        for server in servers:
            server.seconds += tokens.FRESH_S
        assert {asker.get("/me").status_code for asker in (one, other)} == {401}


def test_changes_go_on_at_a_server_that_is_behind(world: World) -> None:
    """It reads up to the token first, so that the reader gets no row as it was before."""
    with ExitStack() as stack:
        one, behind = (stack.enter_context(serving(Served(world, change))) for change in ({}, SELDOM))
        secret = Served(world).token("reader")
        ahead, late = (stack.enter_context(clients.client(address, secret)) for address in (one, behind))
        assert late.rows("per_page").total == 20
        path, headers = "/views/per_page/changes?where=n>0", {"Accept": "application/json"}
        begun = ahead.http.get(path, headers=headers).json()["token"]
        grow(world, 1)
        first = next(ahead.changes("per_page", where="n>0", since=begun))
        assert {row["n"] for row in first.rows} == {2}
        world.append(0, hit("/01", 5))
        world.trigger()
        (row,) = next(late.changes("per_page", where="n>0", since=first.token)).rows
        assert (row["page"], row["n"]) == ("/01", 3)


@pytest.mark.parametrize("rows", [[], ["page=/01"]], ids=["all rows", "restricted"])
def test_answers_do_not_step_back_for_a_client_that_asks_for_that(world: World, rows: list[str]) -> None:
    servers = Served(world), Served(world, SELDOM)
    with ExitStack() as stack:
        one, behind = (stack.enter_context(serving(served)) for served in servers)
        secret = servers[0].token("reader", rows=rows)
        headers = {"Authorization": f"Bearer {secret}"}

        def asked(address: str, seen: str | None, path: str, **how: Any) -> httpx.Response:
            return httpx.request(
                how.pop("method", "GET"),
                f"{address}/views/per_page/{path}",
                headers={**headers, **({} if seen is None else {"Tandem-Monotonic": seen})},
                timeout=60,
                **how,
            )

        row = "row?key.page=/01&window=2026-11-01T12:00"
        assert asked(behind, None, row).json()["row"]["n"] == 1
        for number, (path, how) in enumerate([(row, {}), ("rows?key.page=/01", {}), ("lookup", LOOKUP)], start=2):
            grow(world, number)
            seen = "1"
            while (answer := asked(one, seen, path, **how)).json() and count_of(answer) < number:
                seen = answer.headers["Tandem-Monotonic"]
            assert rows == [] or answer.headers["Tandem-Monotonic"].startswith("sealed.")
            assert count_of(asked(behind, None, path, **how)) == number - 1
            servers[1].seconds += SELDOM_S
            assert count_of(asked(behind, answer.headers["Tandem-Monotonic"], path, **how)) == number
        world.recompute(world.end)
        assert asked(behind, "x", row).json()["detail"].startswith("invalid header Tandem-Monotonic; send 1")


LOOKUP: dict[str, Any] = {"method": "POST", "json": {"keys": [{"page": "/01"}]}}


def count_of(answer: httpx.Response) -> int:
    document = answer.json()
    (row,) = document["rows"] if "rows" in document else [document["row"]]
    return int(row["n"])


def test_a_monotonic_client_gets_no_older_publication_and_no_older_sql(world: World) -> None:
    servers = Served(world), Served(world, SELDOM)
    secret = servers[0].token("reader", may=("read", "sql"))
    with ExitStack() as stack:
        one, behind = (stack.enter_context(serving(served)) for served in servers)
        ask = stack.enter_context(clients.client(one, secret, monotonic=True))
        plain = stack.enter_context(clients.client(behind, secret))
        world.recompute(world.end)
        while ask.rows("per_page").provenance["publication"] < 2:
            pass
        ask.http.base_url = behind
        assert plain.rows("per_page").provenance["publication"] == 1
        servers[1].seconds += SELDOM_S
        assert ask.rows("per_page").provenance["publication"] == 2
        grow(world, 1)
        ask.http.base_url = one
        while ask.sql("SELECT sum(n) AS n FROM per_page").rows[0]["n"] < 40:
            pass
        ask.http.base_url = behind
        assert plain.sql("SELECT sum(n) AS n FROM per_page").rows[0]["n"] == 20
        servers[1].seconds += SELDOM_S
        assert ask.sql("SELECT sum(n) AS n FROM per_page").rows[0]["n"] == 40


def test_sql_that_would_be_older_is_refused_with_that_reason_alone(world: World) -> None:
    seen = urlsafe_b64encode(b"[9,{}]").decode().rstrip("=")
    with Served(world, {"wait_s": 1}).asker() as asker:
        answer = asker.post("/sql", json={"statement": "SELECT 1 FROM ever"}, headers={"Tandem-Monotonic": seen})
    assert (answer.status_code, answer.headers["Retry-After"]) == (504, "1")
    expected = "not as fresh as requested within 1 s: answers of per_page, ever, inverse would be older than the last"
    assert answer.json()["detail"].startswith(expected)
