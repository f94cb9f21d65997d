"""`?release=N`: the answers that N gives after its promotion, for any log; never a row, tag or token of another release."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish import promotion
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.access.rights import VERBS
from tandem.serving.client import server_client as clients
from tandem.serving.client.server_client import Refused
from tandem.serving.http.answer_cache.release_lanes import IDLE_S, MOST
from tests.samples import just
from tests.serving.http.served import Asker, Served, serving
from tests.serving.read.test_a_release_before_it_is_live import Side, steps, values
from tests.serving.two_releases import CHANGES, applied, build, edited, promote
from tests.serving.world import NOON, World, hit, position

STATEMENT = {"statement": "SELECT count(*) AS rows, sum(n) AS n FROM ever"}
RELEASE = {"release": "2"}


@dataclass
class Sides:
    """The live release, and release 2 beside it, which is ready; both have counted the whole log."""

    live: World
    ready: World


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    live = World(tmp_path)
    live.append(0, *(hit("/", n) for n in range(12)))
    for end in (4, 8, 12):
        live.trigger(position(end))
    live.recompute(position(4))
    ready = applied(live, edited("another filter", "one view more"))
    for end in (8, 12):
        ready.trigger(position(end))
    build(ready, position(8))
    return Sides(live, ready)


@pytest.fixture
def server(sides: Sides) -> Iterator[tuple[Served, Asker]]:
    served = Served(sides.live)
    with served.asker() as asker:
        yield served, asker


def read(server: Asker, path: str, **asked: Any) -> Any:
    answer = server.get(path, params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def everything(server: Asker, **asked: str) -> dict[str, Any]:
    """The answers of every route for rows, apart from what says which publication is live and since when."""
    views = [view["name"] for view in read(server, "/views", **asked)["views"]]
    answers: dict[str, Any] = {"views": views}
    for name in views:
        for layer in ("merged", "batch", "speed"):
            answers[f"{name} {layer}"] = read(server, f"/views/{name}/rows", layer=layer, **asked)
        described = read(server, f"/views/{name}", **asked)
        answers[f"{name} is"] = {**described, "state": {**described["state"], "publication": 0}}
        statement = {"statement": f'SELECT * FROM "{name}" ORDER BY ALL'}
        selected = server.post("/sql", json=statement, params=asked)
        assert selected.status_code == 200, selected.text
        answers[f"{name} by SQL"] = selected.json()
    for each in answers.values():
        if isinstance(each, dict) and "provenance" in each:
            told = each["provenance"]
            for one in (told, *told.get("views", {}).values()):
                one.update({"publication": 0, "live": True})
    return answers


@just(3, quick=2)
@given(
    before=st.lists(values, max_size=3),
    back=st.integers(0, 2),
    changes=st.lists(st.sampled_from([*CHANGES]), min_size=1, max_size=2, unique=True),
    steps=steps,
)
def test_a_release_answers_as_after_its_promotion(
    before: list[list[bytes]], back: int, changes: list[str], steps: list[tuple[Any, ...]]
) -> None:
    with TemporaryDirectory() as folder:
        live = Side(World(Path(folder)), LOG_START)
        for number, some in enumerate(before):
            live.world.append(number % 2, *some)
            live.trigger()
        live.recompute(back)
        following = Side(applied(live.world, edited(*changes)), live.cut)
        with Served(live.world).asker() as server:
            for step in [*steps, ("next", "recompute", 0), ("next", "trigger", 0)]:
                match step:
                    case ("append", int(partition), list(some)):
                        live.world.append(partition, *some)
                    case ("live" | "next" as which, "trigger", _):
                        (live if which == "live" else following).trigger()
                    case ("live" | "next" as which, "recompute", int(back)):
                        (live if which == "live" else following).recompute(back)
                asked = server.get(
                    "/views/ever/rows" if "ever" in following.world.project.views else "/views/inverse/rows", params=RELEASE
                )
                assert asked.status_code == (200 if following.built else 404), asked.text
            was = everything(server, **RELEASE)
            promote(following.world)
            assert everything(server, **RELEASE) == was
        with Served(live.world).asker() as server:
            assert everything(server) == was


@pytest.mark.slow
def test_no_answer_tag_or_cursor_is_of_another_release(sides: Sides, server: tuple[Served, Asker]) -> None:
    _, ask = server
    paths = ("/views/ever/rows", "/views/inverse/rows?limit=1", "/views/inverse/row?key.odd=true")
    for path in paths:
        answers = [ask.get(path), ask.get(path, params=RELEASE)]
        if "?" in path:
            answers[1] = ask.get(f"{path}&release=2")
        live, ready = answers
        assert (live.status_code, ready.status_code) == (200, 200)
        assert [one.json()["provenance"]["release"] for one in answers] == [1, 2]
        assert [one.json()["provenance"]["live"] for one in answers] == [True, False]
        assert live.headers["ETag"] != ready.headers["ETag"]
        of_release = f"{path}{'&' if '?' in path else '?'}release=2"
        # A release answers 304 to its own tag, and never to that of the other release.
        for path_of, own, other in ((path, live, ready), (of_release, ready, live)):
            assert ask.get(path_of, headers={"If-None-Match": own.headers["ETag"]}).status_code == 304
            assert ask.get(path_of, headers={"If-None-Match": other.headers["ETag"]}).status_code == 200
    for path, crossed in (("?limit=1", "?limit=1&release=2"), ("?limit=1&release=2", "?limit=1")):
        following = ask.get(f"/views/inverse/rows{path}").json()["next"]
        refused = ask.get(f"/views/inverse/rows{crossed}", params={"cursor": following, **dict(httpx.QueryParams(crossed[1:]))})
        assert refused.status_code == 410, refused.text
        assert ask.get(f"/views/inverse/rows{path}", params={"cursor": following, **dict(httpx.QueryParams(path[1:]))}).is_success
    assert ask.get("/views/ever/rows").json()["rows"][0]["n"] == 11
    assert ask.get("/views/ever/rows", params=RELEASE).json()["rows"][0]["n"] == 8
    selected = [ask.post("/sql", json=STATEMENT, params=params).json() for params in ({}, RELEASE, {}, RELEASE)]
    assert [one["rows"][0]["n"] for one in selected] == [11, 8, 11, 8]
    assert [one["provenance"]["views"]["ever"]["live"] for one in selected] == [True, False, True, False]
    assert ask.get("/views/also/rows").status_code == 404


def test_the_tag_of_a_promoted_release_is_new(sides: Sides, server: tuple[Served, Asker]) -> None:
    _, ask = server
    was = ask.get("/views/ever/rows", params=RELEASE)
    promote(sides.ready)
    now = ask.get("/views/ever/rows", params=RELEASE, headers={"If-None-Match": was.headers["ETag"]})
    assert now.status_code == 200
    assert now.json()["rows"] == was.json()["rows"]
    assert now.json()["provenance"]["live"]


def test_changes_of_a_release_are_its_own_and_its_token_leads_to_the_live_one(sides: Sides) -> None:
    served = Served(sides.live)
    secret = served.token("reader", may=("read", "release"))
    path, headers = "/views/inverse/changes", {"Authorization": f"Bearer {secret}"}
    with serving(served) as address:

        def open_stream(**params: str) -> Any:
            return httpx.stream("GET", f"{address}{path}", params=params, headers=headers, timeout=60)

        with open_stream(**RELEASE) as stream:
            assert stream.status_code == 200
            lines = stream.iter_lines()
            sides.live.append(0, hit("/", 13))
            sides.live.trigger()  # which changes nothing of release 2
            sides.live.append(0, hit("/", 15))
            sides.ready.trigger()
            token = next(line for line in lines if line.startswith("id: ")).removeprefix("id: ")
            data = httpx.Response(200, text=next(line for line in lines if line.startswith("data: "))[6:]).json()
        assert (data["provenance"]["release"], data["provenance"]["live"]) == (2, False)
        assert [(row["odd"], row["n"]) for row in data["rows"]] == [(True, 8)]
        # The live release has counted one record less, so that row differs from what the token's holder knows.
        with open_stream(since=token) as stream:
            lines = stream.iter_lines()
            data = httpx.Response(200, text=next(line for line in lines if line.startswith("data: "))[6:]).json()
        assert data["provenance"]["release"] == 1
        assert [(row["odd"], row["n"]) for row in data["rows"]] == [(True, 7)]


@pytest.mark.parametrize(
    "path", ["/views", "/views/ever", "/views/ever/rows", "/views/inverse/row?key.odd=true", "/views/ever/changes"]
)
def test_a_release_needs_a_right_of_its_own(sides: Sides, path: str) -> None:
    served = Served(sides.live)
    every = tuple(verb for verb in VERBS if verb != "release")
    with served.asker(served.token("all but one", may=every)) as ask:
        refused = ask.get(path, params={**dict(httpx.URL(path).params), **RELEASE})
        assert refused.status_code == 403
        assert refused.json()["detail"] == (
            "a question to a release that the request names needs the right 'release'; the token has admin, ingest, read, sql"
        )
        selected = ask.post("/sql", json=STATEMENT, params=RELEASE)
        looked = ask.post("/views/inverse/lookup", json={"keys": [{"odd": True}]}, params=RELEASE)
        assert (selected.status_code, looked.status_code) == (403, 403)
    with served.asker(served.token("release alone", may=("release",))) as ask:
        assert ask.get("/views/ever/rows", params=RELEASE).status_code == 403


def test_rows_that_a_token_may_not_see_stay_hidden_in_a_release(sides: Sides) -> None:
    served = Served(sides.live)
    with served.asker(served.token("bound", may=("read", "release"), rows=["odd=true"])) as ask:
        assert ask.get("/views/ever/rows", params=RELEASE).status_code == 404
        shown = ask.get("/views/inverse/rows", params=RELEASE).json()
        assert [row["odd"] for row in shown["rows"]] == [True]
        assert shown["provenance"]["realtime"] is None
        assert ask.get("/views/inverse/rows", params={**RELEASE, "key.odd": "false"}).status_code == 403


def test_a_release_that_cannot_be_asked_is_one_sentence(sides: Sides, server: tuple[Served, Asker]) -> None:
    _, ask = server

    def reason(status: int, path: str = "/views/ever/rows", **params: str) -> str:
        answer = ask.get(path, params=params)
        assert answer.status_code == status, answer.text
        return str(answer.json()["detail"])

    assert reason(404, release="7") == "release 7 was neither live nor applied; ready: 2"
    assert "greater than or equal to 1" in reason(400, release="0")
    assert reason(400, release="2", publication="1") == "release cannot be combined with publication or as_of"
    assert reason(404, path="/views/evr/rows", release="2").startswith("no view 'evr'; views: ")
    assert ask.get("/views/ever/rows", params=RELEASE).is_success
    promotion.retire(StandingReleases(sides.live.tables), 2, by="test", at=NOON, why="wrong")
    assert reason(404, release="2") == "release 2 is retired (wrong); ready: none"
    assert ask.post("/sql", json=STATEMENT, params=RELEASE).status_code == 404


def test_a_position_is_waited_for_in_the_release(sides: Sides) -> None:
    served = Served(sides.live, {"wait_s": 1})
    with served.asker() as ask:
        sides.live.append(0, hit("/", 13))
        sides.live.trigger()
        wanted = {"min_position": '{"T": {"0": 13}}'}
        assert ask.get("/views/ever/rows", params=wanted).is_success
        late = ask.get("/views/ever/rows", params={**RELEASE, **wanted})
        assert (late.status_code, "answers stand at" in late.json()["detail"]) == (504, True)
        assert ask.post("/sql", json=STATEMENT, params={**RELEASE, **wanted}).status_code == 504
        sides.ready.trigger()
        assert ask.get("/views/ever/rows", params={**RELEASE, **wanted}).json()["rows"][0]["n"] == 9
        assert ask.post("/sql", json=STATEMENT, params={**RELEASE, **wanted}).json()["rows"][0]["n"] == 9


@pytest.mark.slow
def test_lanes_are_bounded_and_dropped_when_nobody_asks(sides: Sides, server: tuple[Served, Asker]) -> None:
    served, ask = server
    changes = ("another window", "another key")
    for number, change in enumerate(changes, start=3):
        build(applied(sides.live, edited(change)), position(4))
        answer = ask.get("/views/ever/rows", params={"release": str(number)})
        assert (answer.status_code, answer.json()["provenance"]["release"]) == (200, number)
    assert ask.get("/views/ever/rows", params={"release": "99"}).status_code == 404
    assert len(served.server.releases._lanes) == MOST == len(changes)
    refused = ask.get("/views/ever/rows", params=RELEASE)
    assert refused.status_code == 429
    assert refused.json()["detail"] == "the server answers 2 releases that are not live at a time, now 3 and 4; try again in 60 s"
    assert refused.headers["Retry-After"] == "61"
    served.seconds += IDLE_S
    served.server.releases.drop_idle()
    assert not served.server.releases._lanes
    assert ask.get("/views/ever/rows", params=RELEASE).is_success


@pytest.mark.slow
def test_the_python_client_asks_a_release(sides: Sides) -> None:
    served = Served(sides.live)
    with serving(served) as address, clients.client(address, served.token("client", may=("read", "sql", "release"))) as python:
        assert python.rows("ever", release=2).rows[0]["n"] == 8
        assert python.answer("ever", release=2).provenance["live"] is False
        assert python.rows("ever").rows[0]["n"] == 11
        assert python.row("ever", {}, release=2) == python.rows("ever", release=2).rows[0]
        assert python.lookup("inverse", [{"odd": True}], release=2).provenance["release"] == 2
        assert python.sql(STATEMENT["statement"], release=2).rows[0]["n"] == 8
        assert python.sql_answer(STATEMENT["statement"], release=2).to_arrow()["n"].to_pylist() == [8]
        assert "also" in [view["name"] for view in python.views(release=2)]
        assert python.view("also", release=2)["state"]["release"] == 2
        with pytest.raises(Refused, match="neither live nor applied") as raised:
            python.rows("ever", release=9)
        assert (raised.value.status, raised.value.code) == (404, "release-not-ready")
