"""How tasks run `tandem`: lines as they arrive, a document, an exit code, no secrets; no process stays behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tandem.infra.folders import ROOT
from tandem_dags import dying_with
from tandem_dags.command import Command, Orphaned, masked, secrets_of

SPEAKS = """
import json, os, sys
print("first", file=sys.stderr, flush=True)
print("the password is " + os.environ["TANDEM_KAFKA_PASSWORD"], file=sys.stderr, flush=True)
print(json.dumps({"error": "login as hush failed", "hush": ["hush", 1]}))
sys.exit(3)
"""
STAYS = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""
# A task: it runs a command that stays, and writes what ended it.
TASK = """
import pathlib, sys
sys.path.append(sys.argv[1])
from tandem_dags import dying_with
from tandem_dags.command import Command, Orphaned
try:
    Command([sys.executable, "-c", sys.argv[2], sys.argv[3]]).run(print)
except Orphaned:
    pathlib.Path(sys.argv[3] + ".orphaned").touch()
"""
# A worker: it starts a task, and lives on.
WORKER = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", *sys.argv[1:]]).wait()
"""
PATIENCE_S = 300


def wait_until(what) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lives(pid: int) -> bool:
    # Asked once: a process may end between a look whether it exists and a look at its state.
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def said(path: Path) -> bool:
    return path.exists() and bool(path.read_text())


def test_lines_document_and_exit_code_are_returned_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_KAFKA_PASSWORD", "hush")
    lines: list[str] = []
    done = Command([sys.executable, "-c", SPEAKS], secrets_of(os.environ)).run(lines.append)
    assert lines == ["first", "the password is ***"]
    assert (done.code, dict(done.document)) == (3, {"error": "login as *** failed", "***": ["***", 1]})
    assert done.error == "login as *** failed"
    assert "hush" not in json.dumps(done.document)


def test_the_longest_secret_is_masked_first() -> None:
    secrets = secrets_of({"A_TOKEN": "ab", "B_SECRET": "abc", "HOME": "/root", "EMPTY_TOKEN": ""})
    assert secrets == ("abc", "ab")
    assert masked("xabcx", secrets) == "x***x"


def test_the_credentials_of_every_store_are_secrets() -> None:
    names = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY")
    more = (
        "AZURE_STORAGE_MASTER_KEY",
        "AZURE_STORAGE_CLIENT_SECRET",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "AWS_SSE_CUSTOMER_KEY_BASE64",
    )
    assert {*secrets_of({name: name.lower() for name in (*names, *more)})} == {*map(str.lower, (*names, *more))}
    assert secrets_of({"TANDEM_KAFKA_SECURITY": "sasl_ssl", "AWS_REGION": "eu", "SASL_MECHANISM": "PLAIN"}) == ()


def test_a_command_without_a_document_reports_how_it_ended() -> None:
    done = Command([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]).run(print)
    assert (done.code, done.error) == (-9, "ended by signal 9")


def test_a_command_learns_for_whom_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_WHO", "somebody")
    code = "import json, os; print(json.dumps({'who': os.environ['TANDEM_WHO'], 'path': os.environ['PATH']}))"
    for who, name in ((None, "somebody"), ("Airflow, DAG recompute", "Airflow, DAG recompute")):
        done = Command([sys.executable, "-c", code], who=who).run(print)
        assert dict(done.document) == {"who": name, "path": os.environ["PATH"]}


def test_a_missing_command_is_named() -> None:
    lines: list[str] = []
    assert Command(["no-such-command"]).run(lines.append).code == dying_with.NOT_FOUND
    assert lines == ["no-such-command: No such file or directory"]


def test_lines_arrive_while_the_command_runs(tmp_path: Path) -> None:
    goes_on = tmp_path / "goes_on"
    code = (
        "import pathlib, sys, time\nprint('now', file=sys.stderr, flush=True)\n"
        f"while not pathlib.Path({str(goes_on)!r}).exists(): time.sleep(.02)"
    )
    assert Command([sys.executable, "-c", code]).run(lambda _: goes_on.touch()).code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_the_command_dies_with_a_killed_task(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    task = subprocess.Popen([sys.executable, "-c", TASK, str(ROOT / "dags"), STAYS, str(pid)])
    wait_until(lambda: said(pid))
    task.send_signal(signal.SIGKILL)
    task.wait()
    wait_until(lambda: not lives(int(pid.read_text())))


def test_a_task_whose_worker_was_killed_ends_the_command(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, TASK, str(ROOT / "dags"), STAYS, str(pid)])
    wait_until(lambda: said(pid))
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    wait_until(lambda: not lives(int(pid.read_text())))
    wait_until(Path(f"{pid}.orphaned").exists)
    assert issubclass(Orphaned, Exception)
