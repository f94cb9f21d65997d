"""`up` starts what is not running and says where it is, `down` ends exactly that; the pid it names is what its part hangs on."""

import json
import os
import shutil
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.infra.folders import ROOT
from tandem.infra.kafka import broker
from tandem.infra.settings import load
from tests.cli.metrics.figures import Samples, parsed
from tests.cli.run import exposure
from tests.stack import environ, kafka_toml

pytestmark = pytest.mark.broker

PLANTED = ("planted-s3-key", "planted-store-word", "planted-lineage-token")
"""Secrets of a project's settings."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command with --json: its exit code and document."""
    for name in set(os.environ) - set(environ()):
        monkeypatch.delenv(name)

    def run(command: str, project: Path, *options: str) -> tuple[int, dict[str, Any]]:
        code = main([command, "--json", "--project", str(project), *options])
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def project(tmp_path: Path, run) -> Iterator[Path]:
    # A path as people have it: what goes to a JVM, a shell or an address has to be quoted.
    folder = tmp_path / "a b'é" / "project"
    shutil.copytree(ROOT / "examples" / "access_log", folder, ignore=shutil.ignore_patterns(".tandem", "__pycache__"))
    (folder / "tandem.toml").write_text(
        '[kafka]\nmemory = "256m"\n[spark]\nmaster = "local[2]"\ndriver_memory = "512m"\n'
        f'[spark.conf]\n"spark.hadoop.fs.s3a.secret.key" = "{PLANTED[0]}"\n'
        f'"spark.driver.extraJavaOptions" = "-Djavax.net.ssl.trustStorePassword={PLANTED[1]}"\n'
        f'[lineage]\nfile = "lineage.jsonl"\ntoken = "{PLANTED[2]}"\n'
    )
    yield folder
    run("down", folder)


def pids(document: dict[str, Any]) -> dict[str, int]:
    return {part["name"]: part["pid"] for part in document["processes"]}


def group(leader: int) -> list[int]:
    """The living processes of a part: its leader, JVM and whatever else it started in its group."""
    found = []
    for process in psutil.process_iter(["status"]):
        with suppress(ProcessLookupError):
            if process.info["status"] != psutil.STATUS_ZOMBIE and os.getpgid(process.pid) == leader:
                found.append(process.pid)
    return found


def test_a_project_starts_recovers_and_stops(run, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = project / ".tandem"
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    assert main(["up", "--json", "--project", str(project)]) == 0
    said = capsys.readouterr()
    first = json.loads(said.out)
    narrowed = f"the state folder {state} had mode 0755, so other users could read it; changed it to 0700"
    assert said.err.splitlines().count(narrowed) == 1
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert [part["name"] for part in first["processes"]] == ["broker", "speed", "supervisor"]
    assert all(Path(part["log"]).exists() for part in first["processes"])
    assert run("up", project) == (0, first)
    assert run("status", project)[1]["processes"] == first["processes"]

    address = broker.address(load(project, environ()))
    assert (address.bootstrap, str(state / "broker" / "java.properties")) == tuple(first["addresses"].values())
    connection = kafka.connect(address)
    hidden = [*PLANTED, address.options["sasl.password"]]
    assert exposure.commands(hidden) == []
    assert kafka.topic(connection, "access").partitions == 2

    # The pid of speed is its Python driver's: JVM and workers die with it, and the supervisor starts another one.
    speed = pids(first)["speed"]
    assert len(group(speed)) > 1
    os.kill(speed, signal.SIGKILL)
    lines = project / "lines"
    lines.write_text('203.0.113.7 - - [01/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl"\n' * 20)
    assert main(["feed", str(lines), "--source", "access", "--project", str(project)]) == 0
    capsys.readouterr()
    deadline = time.monotonic() + 400
    figures: dict[str, Samples] = {}
    while (
        not figures or figures["tandem_records_total"][("access", "decoded", "")] < 20 or "tandem_triggers_total" not in figures
    ):
        assert time.monotonic() < deadline, figures
        time.sleep(0.5)  # Java starts, which takes the time of the machine
        figures = parsed(run("metrics", project)[1]["metrics"])
    assert group(speed) == []
    again = run("status", project)[1]
    assert {**pids(again), "speed": speed} == pids(first)
    assert {process: up for (process,), up in figures["tandem_process_up"].items() if process != "supervisor"} == {
        "broker": 1,
        "speed": 1,
    }
    assert figures["tandem_records_total"][("access", "decoded", "")] == 20
    assert sum(figures["tandem_log_end_offsets"].values()) == 20
    assert set(figures["tandem_lag_offsets"].values()) == {0}
    assert 1 <= figures["tandem_triggers_total"][("1", "access")] <= 20
    assert figures["tandem_trigger_phase_seconds_total"][("1", "access", "addBatch")] > 0

    assert exposure.commands(hidden) == []
    assert exposure.files(hidden, state) == []

    code, second = run("up", project)
    assert (code, second["addresses"], pids(second)) == (0, first["addresses"], pids(again))
    code, stopped = run("down", project)
    assert (code, [part["name"] for part in stopped["stopped"]]) == (0, ["supervisor", "speed", "broker"])
    assert [group(pid) for pid in pids(second).values()] == [[], [], []]
    assert run("down", project) == (0, {"stopped": []})
    assert run("status", project)[1]["processes"] == []


@pytest.mark.slow
def test_a_part_that_fails_to_start_is_reported_with_its_own_error(run, project: Path, broker: kafka.BrokerConnection) -> None:
    outside = kafka_toml(broker)
    (project / "tandem.toml").write_text(f'{outside}[spark]\ndriver_memory = "1k"\n')
    code, document = run("up", project)
    assert code == 1
    assert document["error"].startswith("speed ended while starting (exit code 1); the last lines of ")
    assert "Spark did not start" in document["error"]
    assert run("status", project)[1]["processes"] == []


def test_an_absent_outside_broker_is_one_sentence(run, project: Path) -> None:
    (project / "tandem.toml").write_text('[kafka]\nbootstrap = "127.0.0.1:1"\n')
    document = {"error": "no Kafka broker at 127.0.0.1:1: connection refused", "code": "broker-unavailable"}
    assert run("up", project) == (1, document)


def test_down_of_a_project_that_never_ran_creates_nothing(run, tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").touch()
    assert run("down", tmp_path) == (0, {"stopped": []})
    assert [path.name for path in tmp_path.iterdir()] == ["tandem.toml"]
