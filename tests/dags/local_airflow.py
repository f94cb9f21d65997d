"""A project with its own local Airflow, for slow tests: started, polled through its REST API, and stopped."""

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import pytest

from tandem.infra.airflow import packages
from tandem.infra.folders import ROOT
from tests.stack import PYTHONPATH, environ

PATIENCE_S = 600
needs_airflow = pytest.mark.skipif(
    not packages.environment(environ()).installed(),
    reason="Airflow is not installed here: `tandem up --airflow` or `tandem test --all` does it",
)


@dataclass
class Local:
    """The project's folder, and what its commands are run with."""

    project: Path
    _tokens: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def tandem(self, *arguments: str) -> dict[str, Any]:
        """What a command that succeeds prints."""
        done = self.run([sys.executable, "-m", "tandem.cli", *arguments, "--project", str(self.project), "--json"])
        assert done.returncode == 0, done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def airflow(self, *arguments: str) -> str:
        """What Airflow's command line prints."""
        done = self.run([sys.executable, "-m", "tandem.cli", "airflow", "--project", str(self.project), "--", *arguments])
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        variables = {**environ(), "PYTHONPATH": PYTHONPATH}
        return subprocess.run(words, env=variables, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        """The REST API's answer."""
        home = self.project / ".tandem" / "airflow"
        address = f"http://127.0.0.1:{(home / 'port').read_text()}"
        if address not in self._tokens:  # good for a day
            password = json.loads((home / "passwords.json").read_text())["admin"]
            found = _ask("POST", f"{address}/auth/token", {"username": "admin", "password": password})
            self._tokens[address] = found["access_token"]
        return _ask(method, f"{address}/api/v2{path}", document, self._tokens[address])

    def runs(self, dag: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", f"/dags/{dag}/dagRuns?limit=100")["dag_runs"]
        return found

    def tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        found = self.ask("GET", f"/dags/{dag}/dagRuns/{quote(run, safe='')}/taskInstances")["task_instances"]
        return {task["task_id"]: task for task in found}

    def trigger(self, dag: str, run: str, **conf: Any) -> None:
        self.ask("POST", f"/dags/{dag}/dagRuns", {"dag_run_id": run, "logical_date": None, "conf": conf})

    def clear(self, dag: str, run: str) -> None:
        self.ask("POST", f"/dags/{dag}/dagRuns/{quote(run, safe='')}/clear", {"dry_run": False})

    def clear_task(self, dag: str, run: str, task: str) -> None:
        what = {"dry_run": False, "dag_run_id": run, "task_ids": [task], "only_failed": False, "include_downstream": True}
        self.ask("POST", f"/dags/{dag}/clearTaskInstances", what)

    def ended(self, dag: str, run: str) -> str | None:
        state: str = self.ask("GET", f"/dags/{dag}/dagRuns/{quote(run, safe='')}")["state"]
        return state if state in ("success", "failed") else None

    def log(self, dag: str, run: str, task: str, attempt: int = 1) -> str:
        folder = self.project / ".tandem" / "airflow" / "logs" / f"dag_id={dag}" / f"run_id={run}" / f"task_id={task}"
        return (folder / f"attempt={attempt}.log").read_text()

    def let_go(self, dag: str, run: str, task: str) -> bool:
        """Whether the scheduler knows that the task's process has ended, for good or to wait."""
        log = (self.project / ".tandem" / "logs" / "airflow-scheduler.log").read_text()
        return f"TaskInstance Finished: dag_id={dag}, task_id={task}, run_id={run}," in log

    def events(self, part: str) -> list[dict[str, Any]]:
        """The events of assets whose name ends so, oldest first."""
        found = wait_for("Airflow to list its events", self._events)["asset_events"]
        return [event for event in found if event["uri"].endswith(part)]

    def _events(self) -> Any:
        """All events. None for now where one of them has made a run that has not begun: Airflow 3.3 cannot list them then."""
        try:
            return self.ask("GET", "/assets/events?limit=1000&order_by=timestamp")
        except HTTPError as error:
            if error.code == HTTPStatus.INTERNAL_SERVER_ERROR:
                return None
            raise


def made(folder: Path, *, settings: str = "") -> Local:
    """A copy of examples/web, in small."""
    shutil.copytree(ROOT / "examples" / "web", folder, ignore=shutil.ignore_patterns(".tandem", "__pycache__"))
    (folder / "tandem.toml").write_text(
        '[kafka]\nmemory = "256m"\n[spark]\nmaster = "local[2]"\ndriver_memory = "512m"\n[airflow]\nretry_s = 2\n' + settings
    )
    return Local(folder)


def wait_for(what: str, look: Callable[[], Any], *, seconds: float = PATIENCE_S) -> Any:
    """What the look gives, once it gives something."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(1)  # Airflow works for each answer
    return found


def yesterday() -> datetime:
    """The start of the day before this one."""
    return (datetime.now(UTC) - timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)


def _ask(method: str, address: str, document: Any = None, token: str = "") -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(address, body, headers, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")
