"""A question without an answer gets a problem document with the reason and what would be valid, never a number."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.ledger.delta import delta_tables
from tandem.serving.http.protocol import formats, media_types
from tandem.serving.http.protocol.problem import MEDIA, Problem
from tandem.serving.read import merged_layers
from tests.serving.http.served import Served
from tests.serving.read.test_failed_is_not_absent import handle_and_paths
from tests.serving.world import NOON, SOURCE, World, hit, nine_hits, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    return nine_hits(tmp_path)


def problem(answer: Any, status: int, *said: str) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA), answer.text
    found = answer.json()
    assert set(found) == {"title", "status", "detail", "code"}
    assert found["status"] == status
    for text in said:
        assert text in found["detail"]
    assert "\n" not in found["detail"]
    return str(found["detail"])


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/views/per_pag/rows", 404, ["no view 'per_pag'; views: per_page"]),
        ("/views/per_page/rows?kye.page=x", 400, ["unknown parameter 'kye.page'; parameters: key.NAME"]),
        ("/views/per_page/rows?limit=1&limit=2", 400, ["'limit' occurs twice"]),
        ("/views/per_page/rows?key.page=a&key.page=b", 400, ["'key.page' occurs twice"]),
        ("/views/per_page/rows?key.page=a&null=page", 400, ["'page' occurs twice"]),
        ("/views/per_page/rows?key.pge=a", 400, ["no key 'pge'; keys: page"]),
        ("/views/per_page/rows?key.=a", 400, ["no key ''"]),
        ("/views/inverse/rows?key.odd=7", 400, ["expected true or false"]),
        ("/views/per_page/rows?limit=0", 400, ["limit: "]),
        ("/views/per_page/rows?limit=10001", 400, ["the maximum is 10000"]),
        ("/views/per_page/rows?measures=m", 400, ["no measure 'm'; measures: mean, n"]),
        ("/views/per_page/rows?measures=", 400, ["no measure ''"]),
        ("/views/per_page/rows?order=x", 400, ["no column 'x' to order by"]),
        ("/views/per_page/rows?order=n,-n", 400, ["names a column twice"]),
        ("/views/per_page/rows?from=soon", 400, ["invalid time 'soon'"]),
        ("/views/per_page/rows?from=0001-01-01T00:00%2B14:00", 400, ["years 1 to 9999"]),
        ("/views/per_page/rows?from=2026-11-02&to=2026-11-01", 400, ["before its start"]),
        ("/views/ever/rows?from=2026-11-01", 400, ["is of all time"]),
        ("/views/per_page/rows?layer=middle", 400, ["layer: "]),
        ("/views/per_page/rows?publication=9", 410, ["retained: 1"]),
        ("/views/per_page/rows?publication=1&as_of=2026-11-02", 400, ["cannot be combined"]),
        ("/views/per_page/rows?as_of=2020-01-01", 400, ["nothing was published at"]),
        ("/views/per_page/rows?publication=1&layer=merged", 400, ["has only the layer batch"]),
        ("/views/per_page/rows?publication=1&max_age=3s", 400, ["cannot be combined with publication or as_of"]),
        ("/views/per_page/rows?min_position=7", 400, ["invalid position"]),
        ('/views/per_page/rows?min_position={"T":{"x":1}}', 400, ["invalid position"]),
        ('/views/per_page/rows?min_position={"T":{"0":-1}}', 400, ["invalid position"]),
        ("/views/per_page/rows?max_age=old", 400, ["write 90s"]),
        ("/views/per_page/row?window=2026-11-01T12:00", 400, ["missing: page"]),
        ("/views/per_page/row?key.page=a", 400, ["has windows (tumbling(hours=1))"]),
        ("/views/ever/row?window=2026-11-01", 400, ["is of all time"]),
        ("/nowhere", 404, ["no route /nowhere"]),
        ("/views/", 404, ["no route /views/"]),
    ],
)
def test_an_invalid_question_gets_the_valid_ones(world: World, path: str, status: int, said: list[str]) -> None:
    with Served(world).asker() as asker:
        problem(asker.get(path), status, *said)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/views/per_pag/rows", "view-unknown"),
        ("/views/per_page/rows?kye.page=x", "request-invalid"),
        ("/views/per_page/rows?key.pge=a", "selection-invalid"),
        ("/views/per_page/row?key.pge=a", "selection-invalid"),
        ("/views/per_page/rows?publication=9", "snapshot-expired"),
        ("/nowhere", "not-found"),
    ],
)
def test_a_problem_has_the_code_of_its_error(world: World, path: str, code: str) -> None:
    with Served(world).asker() as asker:
        assert asker.get(path).json()["code"] == code


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "json"),
        (b"[]", "body"),
        (b'{"keys": []}', "keys"),
        (b'{"keys": [{"pge": 1}]}', "key 0 has pge; expected page"),
        (b'{"keys": [{"page": "/"}, {}]}', "key 1 has no values; expected page"),
        (b'{"keys": [{"page": "/"}], "form": "x"}', "form"),
        (b'{"keys": [{"page": {}}]}', "keys"),
        (b'{"keys": [{"page": "/"}], "measures": ["m"]}', "no measure 'm'"),
        (b'{"keys": [{"page": "/"}], "from": "soon"}', "invalid time"),
    ],
)
def test_an_invalid_lookup_gets_the_valid_form(world: World, body: bytes, said: str) -> None:
    with Served(world).asker() as asker:
        answer = asker.post("/views/per_page/lookup", content=body, headers={"Content-Type": "application/json"})
        assert said in problem(answer, 400).lower()


def test_a_wrong_method_gets_the_right_one(world: World) -> None:
    with Served(world).asker() as asker:
        answer = asker.post("/views")
        assert answer.headers["allow"] == "GET"
        problem(answer, 405, "POST is not allowed for /views; use GET")


def test_before_the_first_publication_every_answer_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    shutil.rmtree(world.tables.root)
    with Served(world).asker() as asker:
        for path in ("/views", "/views/ever", "/views/ever/rows", "/status"):
            problem(asker.get(path), 503, "nothing is published yet")
        problem(asker.get("/readyz"), 503)
        assert asker.get("/healthz").status_code == 200


def test_a_gap_between_commits_fails_until_it_is_closed(world: World) -> None:
    with Served(world).asker() as asker:
        assert asker.get("/readyz").status_code == 200
        handle, paths = handle_and_paths(world)
        lost = delta_tables.read_file(handle, paths[3])
        delta_tables.conditional_replace(handle, [paths[3]], [], at=NOON)
        seen(asker, 503)
        problem(asker.get("/views/per_page/rows"), 503, "no commit starts at {T/0: 3}")
        told = problem(asker.get("/readyz"), 503)
        assert "T/0" not in told  # it is open to all
        state = asker.get("/views/per_page").json()["state"]
        assert "no commit starts at" in state["problem"]
        delta_tables.conditional_append(delta_tables.open_table(world.tables, world.tables.realtime(1, SOURCE)), lost)
        seen(asker, 200)
        assert asker.get("/views/ever/rows").json()["rows"][0]["n"] == 9


def seen(asker: Any, status: int) -> None:
    """Wait until the server has looked, which it does again and again."""
    for _ in range(1000):
        if asker.get("/readyz").status_code == status:
            return
    pytest.fail(f"/readyz has never been {status}")


def test_a_batch_version_whose_files_are_lost_fails(world: World) -> None:
    world.recompute(position(6))
    table = Path(world.tables.view("per_page", world.live.views["per_page"].fingerprint))
    for file in table.glob("batch_version=1/*.parquet"):
        file.unlink()
    with Served(world).asker() as asker:
        problem(asker.get("/views/per_page/rows"), 503, f"cannot read table {table}")
        assert asker.get("/views/per_page/rows?layer=speed").status_code == 200
        assert asker.get("/views/ever/rows").status_code == 200


# Less than any setting can say, so that what never comes costs no time.
HASTY = {"wait_s": 0.01}


def test_an_answer_that_is_not_fresh_in_time_is_a_504(world: World) -> None:
    ahead = json.dumps(position(10).to_json())
    with Served(world, HASTY).asker() as asker:
        problem(asker.get("/views/ever/rows", params={"min_position": ahead}), 504, 'answers stand at {"T": {"0": 9}}')
    world.append(0, hit("/", 1))
    world.trigger()
    with Served(world).asker() as asker:
        assert asker.get("/views/ever/rows", params={"min_position": ahead}).json()["rows"][0]["n"] == 10
    with Served(world, HASTY).asker() as asker:
        problem(asker.get("/views/ever/rows", params={"min_position": ahead, "layer": "batch"}), 504)
        problem(asker.get("/views/ever/rows?max_age=10s"), 504, "appended at 2026-11-01")  # as the test's log has it


def test_the_age_of_an_event_counts_from_its_append(world: World) -> None:
    served = Served(world, HASTY)
    with served.asker() as asker:
        newest = asker.get("/status").json()["sources"]["hits"]["newest"]
        assert newest == "2026-11-01T11:50:08Z"
        served.now = NOON.replace(hour=11, minute=50, second=18)
        # The token is of another time, and valid still.
        assert asker.get("/views/ever/rows?max_age=10s").status_code == 200
        served.now += timedelta(microseconds=1)
        problem(asker.get("/views/ever/rows?max_age=10s"), 504)


@pytest.mark.parametrize(
    ("accept", "best"),
    [
        (None, media_types.JSON),
        ("*/*", media_types.JSON),
        ("application/*", media_types.JSON),
        ("text/*", media_types.CSV),
        ("text/csv;q=0.5, application/json;q=0.4", media_types.CSV),
        ("application/json;q=0.1, */*;q=0.9, text/csv;q=0.95", media_types.CSV),
        ("application/json;q=0, */*", media_types.NDJSON),
        ("APPLICATION/VND.APACHE.ARROW.STREAM; q=1", media_types.ARROW),
        ("text/html, */*;q=0.1", media_types.JSON),
    ],
)
def test_the_format_is_the_clients_preferred_one(accept: str | None, best: str) -> None:
    assert formats.accepted(accept) == best


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "application/json;q=x", ";", ","])
def test_without_an_accepted_format_a_406_lists_the_supported_ones(accept: str) -> None:
    with pytest.raises(Problem, match="application/json, application/x-ndjson, text/csv") as refused:
        formats.accepted(accept)
    assert refused.value.status_code == 406


def test_an_internal_error_reveals_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the inside")

    monkeypatch.setattr("tandem.serving.http.routes.views.readable", broken)
    served = Served(world)
    with served.asker() as asker:
        assert "inside" not in problem(asker.get("/views"), 500)
    assert any("exc_info" in line for line in served.lines)


def test_a_server_that_computes_a_view_differently_is_not_ready(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_layers, "fingerprint", lambda _: "of another kernel")
    with Served(world).asker() as asker:
        problem(asker.get("/views/ever/rows"), 503, "was published by a version of Tandem that computes it differently")
        problem(asker.get("/readyz"), 503)


def test_a_server_that_no_longer_polls_answers_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(world)

    def broken(_: object, __: float) -> None:
        raise RuntimeError("no place to note it")

    with served.asker() as asker:
        assert asker.get("/readyz").status_code == 200
        monkeypatch.setattr(served.server.lane, "polled", broken)
        seen(asker, 503)
        problem(
            asker.get("/views/ever/rows"), 503, "the server no longer polls for publications: RuntimeError: no place to note it"
        )


def test_the_log_has_one_line_when_polls_fail_and_one_when_they_succeed(world: World) -> None:
    served = Served(world)
    log = Path(world.tables.realtime(1, SOURCE), "_delta_log")
    with served.asker() as asker:
        log.rename(log.with_name("away"))
        seen(asker, 503)
        for _ in range(20):
            asker.get("/readyz")
        log.with_name("away").rename(log)
        seen(asker, 200)
    told = [line for line in served.lines if "published" in line["event"]]
    assert [line["event"] for line in told] == [
        "the server cannot answer until the published tables can be read",
        "the published tables can be read again",
    ]
    assert "are older than earlier answers" in told[0]["why"]
