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

from infra.jars import ROOT
from tests.serving.code.coded import coded, files
from tests.serving.http.bystander import ASKED, answered
from tests.serving.http.served import Served
from tests.stack import PYTHONPATH

PATHS = ("/views/hangs/rows", "/views/eats/rows", "/views/crashes/rows", "/views/coded/rows", "/views/raises/rows")


@contextmanager
def started(project: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server of its own, with a secret in its environment."""
    command = [sys.executable, "-m", "cli", "serve", "--project", str(project), "--port", "0", "--json"]
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
    hostile, bystander = known.token("hostile", days=3650), known.token("bystander", days=3650)
    before = files(tmp_path)
    with started(world.folder) as (process, address):
        over, statuses = threading.Event(), set[int]()

        def attack(path: str) -> None:
            with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {hostile}"}, timeout=60) as client:
                while not over.is_set():
                    statuses.add(client.get(path).status_code)

        attacks = [threading.Thread(target=attack, args=(path,)) for path in PATHS * 2]
        for one in attacks:
            one.start()
        while 503 not in statuses:  # the first function has hung or ended its process
            assert process.poll() is None
            over.wait(0.05)
        assert answered(address, bystander, "/views/plain/rows") == ASKED
        row = "/views/plain/row?key.page=/1&window=2026-11-01T12:00:00Z"
        assert answered(address, bystander, row) == ASKED
        over.set()
        for one in attacks:
            one.join()
        assert statuses <= {200, 429, 503, 504}
        found = httpx.get(f"{address}/views/coded/rows", headers={"Authorization": f"Bearer {bystander}"}, timeout=60)
        assert {row["own"].partition("; ")[2] for row in found.json()["rows"]} == {"nothing; nothing"}
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=20)
        assert not alive
    assert files(tmp_path) == before
