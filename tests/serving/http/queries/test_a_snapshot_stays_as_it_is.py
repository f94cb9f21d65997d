"""Pages of a cursor are of one snapshot, and answers of one snapshot have the same bytes, whatever is counted meanwhile."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.ledger.log.positions import LOG_START
from tandem.serving.http.protocol.media_types import MEDIA
from tests.serving import oracle
from tests.serving.http.served import Asker, Served
from tests.serving.world import DEFINITIONS, World, hit, position

WITH_QUANTILES = DEFINITIONS.replace("import Event,", "import Event, approx_quantiles,").replace(
    '"mean": mean("bytes")}', '"mean": mean("bytes"), "typical": approx_quantiles("bytes", (0.5, 0.9))}'
)


def grow(world: World, seed: int) -> None:
    world.append(seed % 2, *(hit(f"/{n:02}", n + seed, minute=n) for n in range(20)))
    world.trigger()


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    grow(made, 0)
    return made


def counted(asker: Asker, world: World) -> dict[str, str]:
    """A parameter with which a request waits until all of the log is counted."""
    return {"min_position": json.dumps(world.end.to_json())}


def test_pages_stay_on_their_snapshot_while_commits_land(world: World) -> None:
    with Served(world).asker() as asker:
        expected = oracle.per_page(world.values(LOG_START, world.end))
        page = asker.get("/views/per_page/rows", params={"limit": 3, "order": "-bytes"}).json()
        rows, provenance = page["rows"], page["provenance"]
        for seed in range(1, 100):
            if page["next"] is None:
                break
            grow(world, seed)
            if seed == 2:
                world.recompute(world.end)
            newer = asker.get("/views/per_page/rows", params=counted(asker, world)).json()
            assert newer["provenance"] != provenance
            page = asker.get("/views/per_page/rows", params={"limit": 4, "order": "-bytes", "cursor": page["next"]}).json()
            assert page["provenance"] == provenance
            rows += page["rows"]
        assert oracle.unlabelled(rows) == sorted(expected, key=lambda row: -row["bytes"])


def test_an_expired_snapshot_is_gone(world: World) -> None:
    served = Served(world)
    served.server.lane.cache.budget = 0  # the latest answer stays, whatever it takes
    with served.asker() as asker:
        cursor = asker.get("/views/per_page/rows?limit=3").json()["next"]
        assert asker.get(f"/views/per_page/rows?limit=3&cursor={cursor}").status_code == 200
        asker.get("/views/ever/rows")
        again = asker.get(f"/views/per_page/rows?limit=3&cursor={cursor}")
        assert again.status_code == 200  # nothing was counted meanwhile: it is worked out anew
        for seed in range(1, 4):
            grow(world, seed)
        assert world.compact()
        asker.get("/views/ever/rows", params=counted(asker, world))
        gone = asker.get(f"/views/per_page/rows?limit=3&cursor={cursor}")
        assert gone.status_code == 410
        assert "send the request again without the cursor" in gone.json()["detail"]


def test_a_cursor_belongs_to_its_question(world: World) -> None:
    with Served(world).asker() as asker:
        cursor = asker.get("/views/per_page/rows?limit=3").json()["next"]
        for other in ("order=-n&", "key.page=/01&", "from=2026-11-01&", "layer=speed&"):
            refused = asker.get(f"/views/per_page/rows?{other}cursor={cursor}")
            assert refused.status_code == 400
            assert "belongs to another query" in refused.json()["detail"]
        assert asker.get(f"/views/per_page/rows?limit=7&measures=n&cursor={cursor}").status_code == 200


@pytest.mark.parametrize("cursor", ["", "x", "é", "WzFd", "a" * 400, "WyJhIiwiYiIsLTFd", "WyJhIiwiYiIsMSwyXQ"])
def test_an_invalid_cursor_is_refused(world: World, cursor: str) -> None:
    with Served(world).asker() as asker:
        refused = asker.get("/views/per_page/rows", params={"cursor": cursor})
        assert refused.status_code == 400
        assert "invalid cursor" in refused.json()["detail"]


@pytest.mark.parametrize("definitions", [DEFINITIONS, WITH_QUANTILES], ids=["exact", "with quantiles"])
@pytest.mark.parametrize("media", MEDIA)
def test_one_snapshot_gives_the_same_bytes(tmp_path: Path, definitions: str, media: str) -> None:
    world = World(tmp_path, definitions=definitions)
    for seed in range(5):
        grow(world, seed)
    world.recompute(position(20, 20))

    def asked(asker: Asker, path: str) -> Any:
        answer = asker.get(path, headers={"Accept": media})
        return answer.content, answer.headers["etag"], answer.headers.get("tandem-provenance")

    with Served(world).asker() as asker:
        path = "/views/per_page/rows?key.page=/07"
        first = asked(asker, path)
        asker.get("/views/per_page/rows")
        assert asked(asker, path) == first
        grow(world, 9)
        asker.get("/views/ever/rows", params=counted(asker, world))
        assert asked(asker, path)[1] != first[1]


def test_sketches_are_merged_once_for_all_questions_of_a_snapshot(tmp_path: Path) -> None:
    """A quantile sketch throws dice at every merge: here of what is below the cut and what is not."""
    world = World(tmp_path, definitions=WITH_QUANTILES)
    for seed in range(6):
        world.append(0, *(hit("/a", (n * 7919 + seed) % 100_000) for n in range(700)))
        world.trigger()
        if seed == 2:
            world.recompute(world.end)
    with Served(world).asker() as asker:
        every = asker.get("/views/per_page/rows").json()["rows"]
        some = asker.get("/views/per_page/rows?key.page=/a").json()["rows"]
        one = asker.get("/views/per_page/row?key.page=/a&window=2026-11-01T12:00").json()["row"]
        looked = asker.post("/views/per_page/lookup", json={"keys": [{"page": "/a"}]}).json()["rows"]
        assert every == some == [one] == looked


def test_a_client_with_the_answer_gets_304(world: World) -> None:
    with Served(world).asker() as asker:
        path = "/views/per_page/rows?limit=5"
        answer = asker.get(path)
        entity = answer.headers["etag"]
        for given in (entity, entity.removeprefix("W/"), f'"other", {entity}', "*"):
            same = asker.get(path, headers={"If-None-Match": given})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", entity)
        others = ["limit=6", "limit=5&measures=n", "limit=5&order=-n", "limit=5&layer=speed"]
        tags = {asker.get(f"/views/per_page/rows?{other}").headers["etag"] for other in others}
        tags |= {asker.get(path, headers={"Accept": media}).headers["etag"] for media in MEDIA}
        assert len(tags | {entity}) == len(others) + len(MEDIA)
        grow(world, 1)
        asker.get("/views/ever/rows", params=counted(asker, world))
        assert asker.get(path, headers={"If-None-Match": entity}).status_code == 200


def test_a_restricted_caller_gets_another_tag(world: World) -> None:
    served = Served(world)
    bound = served.token("bound", rows=["page=/01"])
    with served.asker() as asker:
        path = "/views/per_page/rows?key.page=/01"
        free = asker.get(path)
        kept = asker.get(path, headers={"Authorization": f"Bearer {bound}", "If-None-Match": free.headers["etag"]})
        assert kept.status_code == 200
        assert kept.json()["rows"] == free.json()["rows"]


def test_large_answers_are_compressed_on_request(world: World) -> None:
    with Served(world).asker() as asker:
        plain = asker.get("/views/per_page/rows", headers={"Accept-Encoding": "identity"})
        packed = asker.get("/views/per_page/rows", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.content == plain.content
        assert int(packed.headers["content-length"]) < len(plain.content)
        assert "Accept-Encoding" in packed.headers["vary"]
