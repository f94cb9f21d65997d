"""A real `tandem serve` with two workers, and clients of which each is connected to one of them."""

import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from infra.folders import ROOT
from infra.supervision.guard import members
from serving.access import tokens
from serving.access.rights import VERBS, Rights
from serving.http.listener import Tls
from serving.http.protocol.worker_marks import worker_of
from tests.serving.world import World

PAGE = "/views/per_page/rows?limit=1"
PATIENCE_S = 120


def wait_for(holds: Callable[[], object]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def lives(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass
class Workers:
    """A server with workers of a project."""

    world: World
    process: "subprocess.Popen[str]"
    address: str
    trusted: ssl.SSLContext | bool = True
    _open: list[httpx.Client] = field(default_factory=list)

    def token(self, name: str) -> tuple[str, str]:
        """The id and the secret of a new token with all rights."""
        now = datetime.now(UTC)
        made, secret = tokens.create(
            self.world.tables, name, Rights.of(may=VERBS), expires=now + timedelta(days=1), now=now, random=os.urandom
        )
        return made.name, secret

    def client(self, secret: str) -> httpx.Client:
        """A client with a connection of its own."""
        headers = {"Authorization": f"Bearer {secret}"}
        client = httpx.Client(base_url=self.address, headers=headers, timeout=60, verify=self.trusted)
        self._open.append(client)
        return client

    def of_each(self, secret: str) -> dict[int, httpx.Client]:
        """For each worker a client that is connected to it: the cursor of a page has the mark of who gave it."""
        found: dict[int, httpx.Client] = {}
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < 2:
            assert time.monotonic() < deadline, f"only {[*found]} answer"
            client = self.client(self.token(f"finds {time.monotonic_ns()}")[1])
            time.sleep(0.1)  # a new token is known 50 ms later
            answer = client.get(PAGE)
            assert answer.status_code == 200, answer.text
            worker = worker_of(answer.json()["next"])
            assert worker is not None
            client.headers["Authorization"] = f"Bearer {secret}"
            found.setdefault(worker, client)
        return found

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        every = [int(pid) for pid in children.read_text().split()]
        return [pid for pid in every if lives(pid) and "cli.run.serve_worker" in _words(pid)]

    @property
    def all_processes(self) -> list[int]:
        """Every process of the server's session."""
        return members(os.getsid(self.process.pid))


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@contextmanager
def workers(world: World, change: Mapping[str, str] | None = None, tls: Tls | None = None) -> Iterator[Workers]:
    """A server of a project with two workers, on a free port; `change` are variables of its environment."""
    certificate = () if tls is None else ("--tls-cert", str(tls.certificate), "--tls-key", str(tls.key))
    environ = {**os.environ, "TANDEM_SERVING_WORKERS": "2", "TANDEM_SERVING_KEEP_ALIVE_S": "120", **(change or {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "serve", "--project", str(world.folder), "--port", "0", "--json", *certificate],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    server = Workers(world, process, "", tls is None or ssl.create_default_context(cafile=str(tls.certificate)))
    try:
        server.address = json.loads(process.stdout.readline())["address"]
        yield server
    finally:
        for client in server._open:
            client.close()
        process.kill()
        process.communicate()
