"""Runs are real commands for their caller: one with an effect at a time, in a minimal environment, ended with the server."""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from tandem.ledger.publish.publications import Publications
from tandem.ledger.realtime_writer import Writer
from tandem.serving.access.rights import VERBS, Principal, Rights
from tandem.serving.http.commands import KEPT, LINES, MOST_BYTES, Runs, TandemCommand
from tests.infra.process.test_bounded_child import ended
from tests.serving.http.served import DAY, WAITING, Served
from tests.serving.http.test_a_server_starts_and_ends import started
from tests.serving.world import CHANGED, DEFINITIONS, NOON, SOURCE, one_ready, position

DESK = Principal("token", "desk", Rights.of(may=VERBS), NOON + DAY)
OPEN = """
import os
import sys

sys.stderr.write(" ".join(sorted(os.environ)) + "\\n")
"""


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(one_ready(tmp_path))


async def begun(client: httpx.AsyncClient, command: str, **options: Any) -> str:
    answer = await client.post(f"/runs/{command}", json=options)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/runs/{answer.json()['run']}"
    return str(answer.headers["location"])


async def until(client: httpx.AsyncClient, place: str, holds: Any) -> dict[str, Any]:
    async with asyncio.timeout(300):
        while not holds(found := (await client.get(place)).json()):  # noqa: ASYNC110 - a page polls, too
            await asyncio.sleep(0.05)
    run: dict[str, Any] = found
    return run


async def done(client: httpx.AsyncClient, command: str, **options: Any) -> dict[str, Any]:
    return await until(client, await begun(client, command, **options), lambda run: run["ended"])


def process_of(run: dict[str, Any]) -> int:
    """The process of a run that reads definitions that wait."""
    return int(run["lines"][0].split()[1])


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_plan_lists_the_changes(served: Served) -> None:
    (served.world.folder / "definitions.py").write_text(DEFINITIONS.replace("bytes > 0", "bytes > 1"))
    async with served.client() as client:
        run = await done(client, "plan")
        assert (run["verb"], run["state"], run["exit"], run["problem"]) == ("plan", "changes", 3, None)
        assert run["document"]["views"]["ever"]["changes"] == [{"words": "filter: bytes > 0 -> bytes > 1", "kind": "breaking"}]
        (served.world.folder / "definitions.py").write_text(DEFINITIONS)
        (served.world.folder / "tandem.toml").write_text("# changed")
        assert (await done(client, "plan"))["state"] == "done"
        (served.world.folder / "definitions.py").write_text("VIEWS = 3")
        run = await done(client, "plan")
        assert (run["state"], run["exit"]) == ("failed", 1)
        assert run["lines"] == [f"tandem: {run['document']['error']}"]
        assert [one["state"] for one in (await client.get("/runs")).json()["runs"]] == ["failed", "done", "changes"]


@pytest.mark.anyio
async def test_promotions_and_rollbacks_name_the_token(served: Served) -> None:
    world = served.world
    world.writer = Writer.claim(world.tables, 2, SOURCE, by="test", at=NOON)
    world.trigger(position(30))
    async with served.client(served.token("desk", may=("admin",))) as client:
        run = await done(client, "promote", check=True, gate="changed_keys < 1%")
        assert (run["state"], run["document"]["open"], run["document"]["views"]["per_page"]) == ("changes", False, CHANGED)
        run = await done(client, "promote", release=2, max_lag=0, why="--debug; $(touch x) --json")
        assert (run["state"], run["by"], run["document"]["publication"]) == ("done", "token:desk", 3)
        assert (await done(client, "rollback", publication=2, why="wrong"))["document"]["kind"] == "rollback"
        assert (await done(client, "resume"))["document"]["kind"] == "resume"
        assert (await done(client, "rollback", release=2))["document"]["release"] == 2
        assert (await done(client, "rollback", release=1))["document"]["release"] == 1
        assert (await done(client, "retire", release=2))["document"] == {"release": 2, "stage": "retired"}
        run = await done(client, "retire", release=2)
        assert (run["state"], run["document"]["error"]) == ("failed", "release 2 is already retired")
    told = [(one.kind, one.by, one.why) for one in Publications(world.tables).history()[2:]]
    assert told == [
        ("promote", "promote (token:desk)", "--debug; $(touch x) --json"),
        ("rollback", "rollback (token:desk)", "wrong"),
        ("resume", "resume (token:desk)", ""),
        *[("rollback", "rollback (token:desk)", "")] * 2,
    ]
    assert not list(world.folder.glob("x"))


@pytest.mark.anyio
async def test_one_run_with_an_effect_and_one_without_are_active_at_a_time(served: Served) -> None:
    (served.world.folder / "definitions.py").write_text(WAITING)
    async with served.client() as client:
        applying, planning = await begun(client, "apply"), await begun(client, "plan")
        for command, under_way in (("rollback", applying), ("apply", applying), ("plan", planning)):
            answer = await client.post(f"/runs/{command}", json={})
            assert (answer.status_code, answer.headers["location"]) == (409, under_way)
            assert answer.json()["run"] == under_way.rpartition("/")[2]
        answer = await client.post("/runs/promote", json={"check": True})
        assert (answer.status_code, answer.headers["location"]) == (409, planning)
        waits = [await until(client, place, lambda run: run["lines"]) for place in (applying, planning)]
        assert [run["state"] for run in waits] == ["running", "running"]
        stopping = (await client.delete(applying)).json()
        assert stopping["stopping"]
        over = await until(client, applying, lambda run: run["ended"])
        assert (over["state"], over["exit"], over["document"]) == ("stopped", -signal.SIGTERM, None)
        assert (await client.delete(applying)).json() == over
        assert (await done(client, "resume"))["state"] == "failed"
    # The server has ended, and the plan with it.
    assert all(ended(process_of(run), seconds=0) for run in waits)


@pytest.mark.anyio
async def test_a_run_gets_only_the_environment_that_it_needs(served: Served) -> None:
    (served.world.folder / "definitions.py").write_text(OPEN)
    async with served.client() as client:
        (names,) = [line for line in (await done(client, "plan"))["lines"] if "PATH" in line]
    assert {"PATH", "PYTHONPATH", "TANDEM_WHO"} <= set(names.split())
    assert "SERVER_SECRET" in served.server.runs.tandem.environ
    assert "SERVER_SECRET" not in names


@pytest.mark.parametrize(
    "name",
    [
        *("AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AZURE_STORAGE_SAS_KEY", "IDENTITY_HEADER"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "https_proxy", "NO_PROXY", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG"),
    ],
)
def test_a_run_reaches_the_tables_and_the_cluster_that_the_server_reaches(name: str, tmp_path: Path) -> None:
    tandem = TandemCommand(["tandem"], tmp_path, {name: "of the server"})
    assert tandem.child("apply", [], by=DESK).environ[name] == "of the server"


@pytest.mark.anyio
async def test_invalid_options_start_no_command(served: Served) -> None:
    refused: dict[tuple[str, str], str] = {
        ("plan", '{"gate": "x"}'): "gate: extra inputs",
        ("apply", '{"why": "two\\nlines"}'): "why: value error, it has unprintable characters",
        ("apply", '{"gate": "\\u0000"}'): "gate: value error, it has unprintable characters",
        ("promote", '{"release": "2"}'): "release: input should be a valid integer",
        ("retire", "{}"): "release: field required",
        ("rollback", "[]"): "input should be",
        ("restart", "{}"): "no route /runs/restart",
    }
    async with served.client() as client:
        for (command, body), says in refused.items():
            answer = await client.post(f"/runs/{command}", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code in (400, 404)
            assert says in answer.json()["detail"]
        assert (await client.get("/runs")).json() == {"runs": []}


def runs_of(tmp_path: Path, code: str, hidden: frozenset[str] = frozenset()) -> Runs:
    tandem = TandemCommand([sys.executable, "-c", code], tmp_path, {})
    return Runs(tandem, lambda: NOON, structlog.wrap_logger(None, processors=[_dropped]), hidden)


def _dropped(*_: Any) -> Any:
    raise structlog.DropEvent


@pytest.mark.slow
def test_the_newest_runs_are_kept_and_the_newest_lines_of_each(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, "import sys\nfor n in range(999): print(n, 'x' * 3000, file=sys.stderr)\nprint('{}')")
    run = runs.start("resume", [], by=DESK)
    assert run.over.wait(60)
    assert [line.split()[0] for line in run.lines] == [str(n) for n in range(999 - LINES, 999)]
    assert max(map(len, run.lines)) == 2000
    quick = runs_of(tmp_path, "")
    begun = []
    for _ in range(KEPT + 2):
        begun.append(quick.start("resume", [], by=DESK))
        assert begun[-1].over.wait(60)
    assert [run.id for run in quick.newest_first()] == [run.id for run in begun[:1:-1]]
    assert quick.find(begun[0].id) is None


def test_secrets_are_shown_in_no_line_and_no_document(tmp_path: Path) -> None:
    code = "import sys, json; print('a hunter2', file=sys.stderr); print(json.dumps({'a': ['hunter2']}))"
    run = runs_of(tmp_path, code, frozenset({"hunter2"})).start("resume", [], by=DESK)
    assert run.over.wait(60)
    assert (list(run.lines), run.document, run.state) == (["a ********"], {"a": ["********"]}, "done")


def test_output_that_is_too_large_and_failed_starts_are_reported(tmp_path: Path) -> None:
    run = runs_of(tmp_path, f"print('9' * {MOST_BYTES + 1})").start("resume", [], by=DESK)
    assert run.over.wait(60)
    assert (run.document, run.state) == (None, "done")
    assert f"more than {MOST_BYTES} bytes" in str(run.problem)
    runs = runs_of(tmp_path / "gone", "")
    run = runs.start("resume", [], by=DESK)
    assert run.over.wait(60)
    assert (run.state, run.exit, run.problem) == ("failed", None, "cannot start the command: No such file or directory")
    runs.start("resume", [], by=DESK)


def test_the_caller_is_named_in_printable_characters(tmp_path: Path) -> None:
    code = "import os, json; print(json.dumps(os.environ['TANDEM_WHO']))"
    odd = Principal("oidc", "a\0b\ud800\x1b" + "c" * 500, DESK.rights, DESK.expires)
    run = runs_of(tmp_path, code).start("resume", [], by=odd)
    assert run.over.wait(60)
    assert run.document == ("oidc:a?b??" + "c" * 500)[:200]


KILLED = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel ends it with a killed server on Linux alone")


@pytest.mark.each_run("9")
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=KILLED)])
def test_a_run_ends_with_the_server_however_that_ends(tmp_path: Path, number: signal.Signals) -> None:
    world = one_ready(tmp_path)
    (world.folder / "definitions.py").write_text(WAITING)
    with started(world) as (process, told):
        secret = (world.folder / ".tandem" / "access" / "first.token").read_text().strip()
        with httpx.Client(base_url=told["address"], headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
            place = client.post("/runs/plan", json={}).headers["location"]
            while not (lines := client.get(place).json()["lines"]):
                time.sleep(0.05)
        process.send_signal(number)
        process.communicate(timeout=300)
        assert ended(int(lines[0].split()[1]))
    if number is signal.SIGTERM:
        log = [json.loads(line) for line in (world.folder / ".tandem" / "logs" / "serve.log").read_text().splitlines()]
        assert [line["event"] for line in log if line["event"].startswith("run ")] == ["run began", "run ended"]
