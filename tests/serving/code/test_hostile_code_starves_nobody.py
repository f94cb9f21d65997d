"""While functions hang, crash and eat memory, another process with another token, on another address, is answered."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from tandem.infra.folders import ROOT
from tests.serving.code.coded import coded, files
from tests.serving.http.connections.bystander import ASKED, answered
from tests.serving.http.served import Served
from tests.stack import PYTHONPATH

ASKED_FOR = (
    *(("GET", f"/views/{view}/rows", None) for view in ("hangs", "eats", "crashes", "coded", "raises")),
    ("POST", "/sources/own/events", b'{"hang": 1}'),
)
NO_EVENT = "/sources/hits/events"


@contextmanager
def started(project: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server of its own, with a secret in its environment."""
    command = [sys.executable, "-m", "tandem.cli", "serve", "--project", str(project), "--port", "0", "--json"]
    environ = {**os.environ, "PYTHONPATH": PYTHONPATH, "SERVER_SECRET": "of the server"}
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["address"]
    finally:
        process.kill()
        process.communicate()


def test_others_are_answered_while_functions_attack(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    world = coded(tmp_path)
    known = Served(world)
    may = ("read", "ingest")
    hostile, bystander = (
        known.token("hostile", days=3650, may=may),
        known.token("bystander", days=3650, may=may),
    )
    before = files(tmp_path)
    with started(world.folder) as (process, address):
        over, statuses, told = threading.Event(), set[int](), set[str]()

        def attack(method: str, path: str, body: bytes | None) -> None:
            headers = {"Authorization": f"Bearer {hostile}", "Content-Type": "application/json"}
            with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
                while not over.is_set():
                    answer = client.request(method, path, content=body)
                    statuses.add(answer.status_code)
                    if method == "POST":
                        told.add(answer.json()["detail"].partition(";")[0])

        attacks = [threading.Thread(target=attack, args=one) for one in ASKED_FOR * 2]
        for one in attacks:
            one.start()
        while 503 not in statuses:  # the first function has hung or ended its process
            assert process.poll() is None
            over.wait(0.05)
        assert answered(address, bystander, "/views/plain/rows") == ASKED
        row = "/views/plain/row?key.page=/1&window=2026-11-01T12:00:00Z"
        assert answered(address, bystander, row) == ASKED
        # Events of another source are decoded by the server itself, so nothing waits for the function that hangs.
        assert answered(address, bystander, NO_EVENT, status=422, body="{") == ASKED
        over.set()
        for one in attacks:
            one.join()
        assert statuses <= {200, 429, 503, 504}
        assert "source 'own': decoding took more than its 5 seconds" in told
        found = httpx.get(f"{address}/views/coded/rows", headers={"Authorization": f"Bearer {bystander}"}, timeout=60)
        assert {row["own"].partition("; ")[2] for row in found.json()["rows"]} == {"nothing; nothing"}
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=20)
        assert not alive
    assert files(tmp_path) == before
