"""`tandem demo` as a newcomer runs it: it verifies its answers, reports a crash, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tandem.cli.demo.checks.stored_rows import SINKS_FOLDER
from tests.cli.demo.terminal import frames, opened, read_to_end, sums, words
from tests.stack import environ

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
PATIENCE_S = 400


def command(*options: str, project: str = "web") -> list[str]:
    return [sys.executable, "-m", "tandem.cli", "demo", "--project", str(ROOT / "examples" / project), *options]


@contextmanager
def demo(state: Path, *options: str, project: str = "web") -> Iterator["subprocess.Popen[str]"]:
    """A demo whose stderr goes to the file `said`; killed at the end if it still runs."""
    with (state / "said").open("w") as said:
        child = subprocess.Popen(
            command(*options, project=project),
            env=environ() | {"TANDEM_STATE": str(state)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        child.terminate()
        child.wait(120)


def wait_until_said(state: Path, what: str, child: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while what not in (said := (state / "said").read_text()):
        assert child.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.2)


def mentioning(state: Path) -> list[int]:
    """The processes that have this state folder in their environment or command line."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            words = [*process.cmdline(), *process.environ().values()]
            if process.pid != os.getpid() and any(str(state) in word for word in words):
                found.append(process.pid)
    return found


def assert_nothing_is_left(state: Path) -> None:
    # What was killed may take a moment to vanish.
    deadline = time.monotonic() + 300
    while (left := mentioning(state)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left


@pytest.mark.slow
def test_a_crash_is_reported_a_second_demo_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with demo(tmp_path, "--once", "--json", "--events=5000") as child:
        wait_until_said(tmp_path, "sending", child)
        second = subprocess.run(
            command("--once"),
            env=environ() | {"TANDEM_STATE": str(tmp_path)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert second.returncode == 1
        assert "another `tandem demo` is running" in second.stderr
        speed = json.loads((tmp_path / "demo" / "web" / "run" / "speed.json").read_text())
        os.kill(speed["pid"], signal.SIGKILL)
        out, _ = child.communicate(timeout=300)
    assert child.returncode == 1
    assert f"speed (process {speed['pid']}) ended unexpectedly; " in json.loads(out)["error"]
    assert str(tmp_path / "demo" / "web" / "logs" / "speed.log") in (tmp_path / "said").read_text()
    assert_nothing_is_left(tmp_path)


@pytest.mark.slow
def test_a_stop_stops_everything_that_was_started(tmp_path: Path) -> None:
    with demo(tmp_path, "--once", "--events=5000") as child:
        wait_until_said(tmp_path, "starting broker", child)
        time.sleep(3)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=300)
    assert child.returncode == 130
    assert_nothing_is_left(tmp_path)


def test_without_a_terminal_the_demo_suggests_once() -> None:
    done = subprocess.run(command(), env=environ(), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "use `tandem demo --once`" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("project", ["access_log", "cards", "clicks", "sensors", "orders", "words"])  # for web see test_airflow
def test_every_exact_answer_agrees_three_times(tmp_path: Path, project: str) -> None:
    with demo(tmp_path, "--once", "--json", "--events=8000", project=project) as child:
        out, _ = child.communicate(timeout=1700)
    assert child.returncode == 0, (tmp_path / "said").read_text()
    document = json.loads(out)
    assert document["events"] == 8000
    assert [(check["name"], check["differ"]) for check in document["checks"]] == [("tail", 0), ("batch", 0), ("restart", 0)]
    answers = [check["answers"] for check in document["checks"]]
    assert 0 < answers[0] <= answers[1] < answers[2]
    positions = document["figures"]["positions"]
    assert positions["tail"]["cut"] != positions["tail"]["realtime"] == positions["tail"]["log_end"]
    assert positions["batch"]["cut"] == positions["batch"]["log_end"]
    assert positions["restart"]["realtime"] == positions["restart"]["log_end"]
    assert_nothing_is_left(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_tables_in_a_bucket_agree_and_leave_neither_tables_nor_credentials_on_the_disk(tmp_path: Path) -> None:
    with demo(tmp_path, "--once", "--json", "--events=8000", "--storage=s3") as child:
        wait_until_said(tmp_path, "sending", child)
        speed = json.loads((tmp_path / "demo" / "web" / "run" / "speed.json").read_text())
        secret = psutil.Process(speed["pid"]).environ()["AWS_SECRET_ACCESS_KEY"]
        told = [word for process in psutil.process_iter(["cmdline"]) for word in process.info["cmdline"] or ()]
        out, _ = child.communicate(timeout=1700)
    assert child.returncode == 0, (tmp_path / "said").read_text()
    assert [check["differ"] for check in json.loads(out)["checks"]] == [0, 0, 0]
    document = json.loads(out)
    assert document["sinks"].keys() | document["alerts"].keys() == {"status_lake", "section_topic", "slow_route"}
    for checks in (*document["sinks"].values(), *document["alerts"].values()):
        assert [(check["name"], check["differ"], check["answers"] > 0) for check in checks] == [
            (name, 0, True) for name in ("tail", "batch", "restart")
        ]
    # The table of a sink is a folder of the demo's, wherever the project's tables are.
    files = [path for path in tmp_path.rglob("*") if path.is_file() and SINKS_FOLDER not in path.parts]
    assert [path for path in files if path.suffix == ".parquet" or "_delta_log" in path.parts] == []
    assert len(secret) == 32
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    assert [word for word in told if secret in word] == []
    assert_nothing_is_left(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_whose_executors_die_agrees_and_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    with demo(tmp_path, "--once", "--json", "--events=8000", "--storage=s3", "--cluster") as child:
        out, _ = child.communicate(timeout=1700)
    assert child.returncode == 0, (tmp_path / "said").read_text()
    document = json.loads(out)
    assert [check["differ"] for check in document["checks"]] == [0, 0, 0]
    # Up to five: of the speed layer before and after its restart, and of three runs, which may end before it is their turn.
    assert document["cluster"]["executors_killed"] >= 2
    assert_nothing_is_left(tmp_path)


@pytest.mark.slow  # runs all layers for a minute
@pytest.mark.timeout(1800)
def test_tables_that_end_in_the_middle_of_the_stream_are_adopted_and_agree(tmp_path: Path) -> None:
    with demo(tmp_path, "--once", "--json", "--events=8000", "--adopt", project="demo") as child:
        out, _ = child.communicate(timeout=1700)
    assert child.returncode == 0, (tmp_path / "said").read_text()
    document = json.loads(out)
    assert [(check["name"], check["differ"]) for check in document["checks"]] == [("tail", 0), ("batch", 0), ("restart", 0)]
    assert {name: [(check["target"], check["differ"]) for check in checks] for name, checks in document["sinks"].items()} == {
        "sales_lake": [("table", 0)] * 3,
        "calm_hours": [("topic", 0)] * 3,
    }
    assert [check["differ"] for check in document["alerts"]["busy_city"]] == [0, 0, 0]
    rows, overlap = document["adopted"]["rows"], document["adopted"]["overlap"]
    assert 0 < overlap < rows < 3200  # 40 % of the events; malformed ones are in no table
    positions = document["figures"]["positions"]["restart"]
    # The first 20 % of the events are in no topic.
    assert sum(offset for offsets in positions["log_end"].values() for offset in offsets.values()) == 6400
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize("options", [["--adopt"], ["--once", "--adopt", "--storage=s3", "--cluster"]])
def test_tables_to_adopt_need_once_and_no_cluster(options: list[str]) -> None:
    done = subprocess.run(command(*options), env=environ(), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "`tandem demo --adopt` needs `--once`, and cannot be combined with `--cluster`" in done.stderr


def test_a_cluster_needs_tables_in_a_bucket() -> None:
    words = command("--once", "--cluster")
    done = subprocess.run(words, env=environ(), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "`tandem demo --cluster` needs `--storage s3`" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_terminal_shows_sums_what_was_counted_right_and_what_to_try(tmp_path: Path) -> None:
    person, program = opened()
    state, words_of_command = tmp_path / "state", command(project="demo")
    child = subprocess.Popen(
        words_of_command, env=environ() | {"TANDEM_STATE": str(state), "TERM": "xterm-256color"}, cwd=tmp_path,
        stdin=program, stdout=program, stderr=program, start_new_session=True,
    )  # fmt: skip
    os.close(program)
    shown, deadline = "", time.monotonic() + 600
    while not (screens := frames(shown)) or not complete(screens[-1]):
        assert time.monotonic() < deadline, shown[-4_000:]
        shown += os.read(person, 1 << 16).decode("utf-8", "replace")
    child.send_signal(signal.SIGINT)
    ending = read_to_end(person).decode().replace("\r", "")
    assert child.wait(60) == 0
    assert screens[0][1] == "next      batch 1 runs as soon as the log has records"
    for lines in screens:
        if sums(lines):
            words(lines)
    tried = ending.rpartition("stopping all parts\n")[2]
    assert tried.startswith("All parts are stopped. Try next:\n  ./tandem demo --once\n")
    assert_nothing_is_left(state)


def complete(lines: list[str]) -> bool:
    """Whether a screen has answers of both layers, and a duplicate that was counted right."""
    rows = sums(lines)
    return bool(rows) and all(row[0] and row[1] for row in rows.values()) and "duplicate the same event again: still 1" in lines
