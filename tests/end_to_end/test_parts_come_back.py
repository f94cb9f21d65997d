"""Killed and stopped parts recover without help, and every record that is fed meanwhile counts once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tandem.cli.__main__ import main
from tandem.cli.command.call import UNHEALTHY
from tandem.infra.airflow import local_airflow
from tandem.infra.settings import Settings
from tandem.infra.supervision import record
from tandem.serving.status.part_signs import part_states
from tests.dags.local_airflow import needs_airflow
from tests.speed.sales import per_minute, project_files, some
from tests.stack import PYTHONPATH, environ

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(3600)]

# No part is silent for so long on a machine that is merely busy; what hangs is found soon. A failure is forgotten soon, too: each
# test makes one.
TOML = """
[kafka]
memory = "320m"
[spark]
master = "local[2]"
driver_memory = "512m"
[supervisor]
silent_s = 20
trigger_s = 40
settled_s = 1
[serving]
port = 0
stale_s = 2
"""


SEEN_S: Final = 10


@dataclass
class Stack:
    """A project whose parts run; `fed` are the numbers of the sales that are in its log."""

    project: Path
    fed: int = 0

    @property
    def settings(self) -> Settings:
        return Settings(state=str(self.project / ".tandem"))

    def run(self, *words: str, given: bytes = b"") -> tuple[int, dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "tandem.cli", *words, "--project", str(self.project), "--json"],
            env={**environ(), "PYTHONPATH": PYTHONPATH},
            input=given,
            capture_output=True,
            check=False,
            timeout=900,
        )
        return done.returncode, json.loads(done.stdout)

    def feed(self, count: int) -> None:
        """Feed further sales, again until all are acknowledged, as any client would; what arrives twice has one identity."""
        lines = b"".join(value + b"\n" for value in some(range(self.fed, self.fed + count)))
        wait_for(lambda: self.run("feed", "-", "--source", "sales", given=lines)[0] == 0)
        self.fed += count

    def answered(self) -> dict[tuple[str, str], tuple[int, int]]:
        code, found = self.run("query", "per_minute", "--limit", "10000")
        assert code == 0, found
        return {(row["window_start"], row["shop"]): (row["n"], row["sum"]) for row in found["rows"]}

    def part(self, name: str) -> record.PartRecord:
        found = record.read(self.settings.folder)
        assert found is not None
        assert found.lives
        part = found.part(name)
        assert part is not None
        return part

    def red(self, part: str) -> bool:
        """Whether `status` would exit with 3 for this part."""
        return any(one.red and one.part == part for one in part_states(self.settings, now=datetime.now(UTC)))

    def begin(self) -> None:
        """Wait until each part has done its work; start them where the test before has failed and left none."""
        found = record.read(self.settings.folder)
        if found is None or not found.lives:
            code, told = self.run("up", "--serve")
            assert code == 0, told
        wait_for(lambda: self.all_right(0))

    def all_right(self, since: float) -> bool:
        """Whether each part has done its work since then."""
        found = record.read(self.settings.folder)
        assert found is not None
        assert found.lives
        return all(part.state == "running" and (part.looked or 0) > since for part in found.parts)

    def pid(self, part: str) -> int:
        pid = self.part(part).pid
        assert pid is not None
        return pid


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended; the machine's first process takes its time to ask what ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Callable[[], bool], *, seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    project = tmp_path_factory.mktemp("project")
    for name, content in project_files("sales").items():
        (project / name).write_bytes(content)
    (project / "tandem.toml").write_text(TOML)
    stack = Stack(project)
    code, found = stack.run("up", "--serve")
    assert code == 0, found
    assert [part["name"] for part in found["processes"]] == ["broker", "speed", "serve", "supervisor"]
    yield stack
    assert stack.run("down")[0] == 0


def test_up_returns_once_the_speed_layer_has_polled_a_restarted_broker(stack: Stack) -> None:
    """What was there before `up` began is not taken for work: a layer that runs may be about to end."""
    stack.begin()
    os.kill(stack.pid("broker"), signal.SIGKILL)
    began = time.monotonic()
    code, found = stack.run("up")
    assert code == 0, found
    assert stack.all_right(began)
    stack.feed(40)
    wait_for(lambda: stack.answered() == per_minute(range(stack.fed)))


def test_two_ups_at_once_and_the_end_of_the_supervisor_work(stack: Stack) -> None:
    ups = [
        subprocess.Popen(
            [sys.executable, "-m", "tandem.cli", "up", "--serve", "--project", str(stack.project), "--json"],
            env={**environ(), "PYTHONPATH": PYTHONPATH},
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    told = [json.loads(up.communicate(timeout=900)[0]) for up in ups]
    assert [up.returncode for up in ups] == [0, 0]
    assert told[0]["processes"] == told[1]["processes"]
    pids = [part["pid"] for part in told[0]["processes"]]
    os.kill(pids[-1], signal.SIGKILL)
    wait_for(lambda: not any(map(runs, pids)))
    code, found = stack.run("up", "--serve")
    assert code == 0, found
    stack.feed(40)
    wait_for(lambda: stack.answered() == per_minute(range(stack.fed)))


@pytest.mark.parametrize("state", ["waiting", "starting"])
def test_a_supervisor_that_is_killed_while_it_restarts_a_part_is_replaced(stack: Stack, state: str) -> None:
    stack.begin()
    pids = [part["pid"] for part in stack.run("status")[1]["processes"]]
    os.kill(stack.pid("speed"), signal.SIGKILL)
    wait_for(lambda: stack.part("speed").state == state)
    started = stack.part("speed").pid
    os.kill(pids[-1], signal.SIGKILL)
    wait_for(lambda: not any(map(runs, [*pids, *([started] if started else [])])))
    # The layer's last beat is believed for some seconds.
    wait_for(lambda: all(map(stack.red, ("broker", "speed", "serve", "supervisor"))), seconds=SEEN_S)
    code, found = stack.run("status")
    assert code == UNHEALTHY
    assert all("`tandem up` restarts it" in part["advice"] for part in found["parts"])
    code, found = stack.run("up", "--serve")
    assert code == 0, found
    stack.feed(40)
    wait_for(lambda: stack.answered() == per_minute(range(stack.fed)))


def test_down_works_while_a_part_is_restarted(stack: Stack) -> None:
    stack.begin()
    os.kill(stack.pid("speed"), signal.SIGKILL)
    wait_for(lambda: stack.part("speed").state == "starting")
    pids = [part["pid"] for part in stack.run("status")[1]["processes"]]
    assert stack.run("down")[0] == 0
    assert not any(map(runs, pids))
    code, found = stack.run("status")
    assert (code, found["processes"]) == (0, [])
    code, found = stack.run("up", "--serve")
    assert code == 0, found
    stack.feed(40)
    wait_for(lambda: stack.answered() == per_minute(range(stack.fed)))


def test_a_stopped_supervisor_is_red_and_up_replaces_it(stack: Stack) -> None:
    stack.begin()
    supervisor = stack.run("status")[1]["processes"][-1]
    assert supervisor["name"] == record.NAME
    os.kill(supervisor["pid"], signal.SIGSTOP)
    code, found = stack.run("status")
    assert code == UNHEALTHY
    assert [part["part"] for part in found["parts"] if part["red"]] == [record.NAME]
    code, found = stack.run("up", "--serve")
    assert code == 0, found
    assert not runs(supervisor["pid"])
    stack.feed(40)
    wait_for(lambda: stack.answered() == per_minute(range(stack.fed)))


def test_the_broker_comes_back_if_another_program_took_its_port(stack: Stack) -> None:
    """The broker comes back at another port, and whoever reads or writes the log follows it."""
    stack.begin()
    before = stack.run("up")[1]["addresses"]["kafka"]
    host, port = before.split(":")
    since = time.monotonic()
    os.kill(stack.pid("broker"), signal.SIGKILL)
    with listening(host, int(port)):
        stack.feed(40)
        wait_for(lambda: stack.all_right(since))
        wait_for(lambda: stack.answered() == per_minute(range(stack.fed)))
        assert stack.run("up")[1]["addresses"]["kafka"] != before


@contextmanager
def listening(host: str, port: int) -> Iterator[None]:
    """Take a port as soon as it is free."""
    deadline = time.monotonic() + 300
    while True:
        try:
            found = socket.create_server((host, port))
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    with closing(found):
        yield


@pytest.mark.parametrize("content", [b"another-password-that-is-long-enough-0123", b"\xff\x00"], ids=["replaced", "damaged"])
def test_parts_continue_after_the_password_file_changes(stack: Stack, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    """Every command reports it; `up` and the supervisor bring broker and file together, and all clients follow."""
    stack.begin()
    since, project = time.monotonic(), ["--project", str(stack.project)]
    (stack.settings.folder / "broker" / "password").write_bytes(content)
    capsys.readouterr()
    # In this process: the supervisor restarts the broker after 20 seconds.
    assert main(["feed", "/dev/null", "--source", "sales", *project]) == 1
    told = [capsys.readouterr().err.strip()]
    main(["status", "--json", *project])
    told.append(f"tandem: {json.loads(capsys.readouterr().out)['sources']['sales']['log_end_problem']}")
    for sentence in told:
        assert sentence.startswith("tandem: the password ")
        assert sentence.endswith("; restart the broker with `tandem down` and `tandem up`")
    code, found = stack.run("up", "--serve")
    assert code == 0, found
    wait_for(lambda: stack.all_right(since))
    stack.feed(40)
    wait_for(lambda: stack.answered() == per_minute(range(stack.fed)))


@needs_airflow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("part", local_airflow.NAMES)
def test_airflow_comes_back(stack: Stack, part: str, how: signal.Signals) -> None:
    code, found = stack.run("up", "--airflow")
    assert code == 0, found
    before, since = stack.part(part), time.monotonic()
    os.kill(stack.pid(part), how)
    wait_for(lambda: stack.red(part), seconds=SEEN_S)
    wait_for(lambda: stack.part(part).pid not in (None, before.pid) and stack.all_right(since))
    assert not stack.red(part)
