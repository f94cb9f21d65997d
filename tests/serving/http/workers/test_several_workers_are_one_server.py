"""Whichever of several workers a request comes to: pages, runs, limits, tokens, metrics and logs are those of one server."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from serving.access import tokens
from serving.http.protocol.worker_marks import worker_of
from tests.serving.http.workers.served_by_workers import PAGE, Workers, wait_for, workers
from tests.serving.world import forty_hits, hit

RATE, BURST = 2, 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    world = forty_hits(tmp_path_factory.mktemp("world"))
    with workers(world, {"TANDEM_SERVING_RATE": str(RATE), "TANDEM_SERVING_BURST": str(BURST)}) as found:
        yield found


def test_two_processes_answer_at_one_address(server: Workers) -> None:
    assert len(set(server.pids)) == 2
    of_each = server.of_each(server.token("asks both")[1])
    wait_for(lambda: all(client.get("/readyz").status_code == 200 for client in of_each.values()))
    time.sleep(0.1)
    first, second = (client.get(PAGE).json() for client in of_each.values())
    assert first["rows"] == second["rows"]
    assert first["provenance"] == second["provenance"]


def test_pages_stay_on_their_snapshot_at_any_worker(server: Workers) -> None:
    of_each = server.of_each(server.token("pages")[1])
    time.sleep(0.1)
    page = of_each[0].get(PAGE).json()
    total, seen = page["total"], page["rows"]
    server.world.append(1, hit(f"/new/{total}", 5))
    server.world.trigger()
    wait_for(lambda: of_each[1].get(PAGE).json()["total"] == total + 1 or time.sleep(0.5))
    cursors = [page["next"]]
    for turn in range(3):
        found = of_each[(turn + 1) % 2].get(f"{PAGE}&cursor={cursors[-1]}")
        assert found.status_code == 200, found.text
        assert found.json()["total"] == total
        seen += found.json()["rows"]
        cursors.append(found.json()["next"])
    assert {worker_of(cursor) for cursor in cursors} == {0}
    assert len({row["page"] for row in seen}) == len(seen) == 4


def test_runs_are_those_of_the_server(server: Workers) -> None:
    of_each = server.of_each(server.token("operates")[1])
    time.sleep(0.1)
    started = of_each[1].post("/runs/plan", json={})
    assert started.status_code == 202, started.text
    refused = of_each[0].post("/runs/plan", json={})
    assert (refused.status_code, refused.json()["run"]) == (409, started.json()["run"])
    for client in of_each.values():
        assert [run["id"] for run in client.get("/runs").json()["runs"]] == [started.json()["run"]]
    assert of_each[1].delete(started.headers["location"]).status_code == 200


def test_a_token_has_its_rate_in_sum(server: Workers) -> None:
    of_each = server.of_each(server.token("hurries")[1])
    time.sleep(0.1)
    began, answered = time.monotonic(), 0
    for _ in range(BURST):
        answered += sum(client.get("/me").status_code == 200 for client in of_each.values())
    assert BURST <= answered <= BURST + RATE * (time.monotonic() - began) + 2


def test_each_worker_knows_new_and_revoked_tokens(server: Workers) -> None:
    name, secret = server.token("comes and goes")
    of_each = server.of_each(secret)
    time.sleep(0.1)
    assert [client.get("/me").status_code for client in of_each.values()] == [200, 200]
    tokens.revoke(server.world.tables, name, now=datetime.now(UTC))
    time.sleep(0.1)
    assert [client.get("/me").status_code for client in of_each.values()] == [401, 401]


def test_metrics_are_those_of_all_workers(server: Workers) -> None:
    of_each = server.of_each(server.token("scrapes")[1])
    time.sleep(0.1)

    def counted(client: httpx.Client) -> list[float]:
        text = client.get("/metrics").text
        assert len([line for line in text.splitlines() if line.startswith("# TYPE tandem_http_connections gauge")]) == 1
        assert text.count('tandem_part_red{part="speed"}') == 1
        assert [f'tandem_worker_up{{worker="{worker}"}} 1.0' in text for worker in (0, 1)] == [True, True]
        head = 'tandem_http_request_seconds_count{{worker="{}",method="GET",route="/history",status="200"}} '
        found = {worker: text.partition(head.format(worker))[2].partition("\n")[0] or "0" for worker in (0, 1)}
        return [float(found[worker]) for worker in (0, 1)]

    wait_for(lambda: 'tandem_worker_up{worker="1"} 1.0' in of_each[0].get("/metrics").text)
    before = counted(of_each[0])
    for worker, client in of_each.items():
        for _ in range(3 + worker):
            assert client.get("/history").status_code == 200
    for client in of_each.values():
        assert [now - then for now, then in zip(counted(client), before, strict=True)] == [3, 4]


def test_the_audit_log_has_a_whole_line_for_each_question(server: Workers) -> None:
    who, secret = server.token("is audited")
    of_each = server.of_each(secret)
    time.sleep(0.1)
    for _ in range(10):
        for client in of_each.values():
            assert client.get(PAGE).status_code == 200
    file = server.world.state / "logs" / "audit.log"

    def lines() -> list[str]:
        return [line["who"] for line in map(json.loads, file.read_text().splitlines())]

    wait_for(lambda: lines().count(f"token:{who}") == 20)
