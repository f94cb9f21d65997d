"""One process runs all sinks: a dead target holds no other sink, no sink runs twice, and a killed process is started anew."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tandem.cli.__main__ import main
from tandem.cli.run.part_processes import SINK
from tandem.infra.folders import ROOT
from tandem.infra.settings import Settings
from tandem.infra.supervision import record
from tandem.serving.sinks.alerts.book import active_edges, load_document
from tandem.serving.status.part_signs import part_states
from tests.serving.world import DEFINITIONS, World, hit

SINKS = """
from tandem import Sink, delta_table

lake = Sink(per_page, to=delta_table("lake/per_page"))
busy = Sink(per_page, to=delta_table("lake/busy"), where="n > 1")
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.05)


def world(folder: Path, sinks: str = SINKS, toml: str = "") -> World:
    made = World(folder, definitions=DEFINITIONS + sinks)
    with (folder / "tandem.toml").open("a") as settings:
        settings.write(toml)
    made.append(0, hit("/a", 1), hit("/b", 2), hit("/a", 3))
    made.trigger()
    return made


def content(folder: Path) -> dict[str, int]:
    """The pages of a table and their hits; none if there is no table yet."""
    if not DeltaTable.is_deltatable(str(folder)):
        return {}
    rows = pa.table(DeltaTable(str(folder)).to_pyarrow_table()).to_pylist()
    return {row["page"]: row["n"] for row in rows}


@contextmanager
def process(world: World, words: Sequence[str], environ: Mapping[str, str] = {}) -> Iterator["subprocess.Popen[str]"]:
    with process_in(world.folder, words, environ) as started:
        yield started


@contextmanager
def process_in(folder: Path, words: Sequence[str], environ: Mapping[str, str] = {}) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", *words, "--project", str(folder)]
    started = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def test_a_dead_target_costs_its_own_sink_alone(tmp_path: Path) -> None:
    with socket.socket() as store:
        store.bind(("127.0.0.1", 0))
        store.listen()  # whoever connects waits for an answer for ever
        environ = {"AWS_ENDPOINT": f"http://127.0.0.1:{store.getsockname()[1]}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "a"}
        dead = '\ndead = Sink(per_page, to=delta_table("s3://lake/per_page"))\n'
        made = world(tmp_path, SINKS + dead)
        with process(made, ["tandem.cli", "sink"], environ | {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}) as sinks:
            wait_for(lambda: content(tmp_path / "lake" / "per_page") == {"/a": 2, "/b": 1})
            wait_for(lambda: content(tmp_path / "lake" / "busy") == {"/a": 2})
            made.append(0, hit("/b", 1))
            made.trigger()
            wait_for(lambda: content(tmp_path / "lake" / "per_page") == {"/a": 2, "/b": 2})
            wait_for(lambda: content(tmp_path / "lake" / "busy") == {"/a": 2, "/b": 2})
            sinks.send_signal(signal.SIGTERM)
            assert sinks.wait(timeout=300) == 0


def test_the_process_of_sinks_runs_alerts_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also of a project without sinks: it raises what new events make true, and another process of alerts waits for it."""
    made = world(tmp_path, '\nfrom tandem import Alert\n\nmany = Alert(per_page, when="n > 2")\n')

    def raised_rows() -> int | None:
        stored = load_document(made.tables, "many") if DeltaTable.is_deltatable(made.tables.control("alerts", "many")) else None
        return None if stored is None or stored.token is None else len(active_edges(stored))

    with process(made, ["tandem.cli", "sink"]) as running:
        wait_for(lambda: raised_rows() == 0)
        made.append(0, hit("/a", 1))
        made.trigger()
        wait_for(lambda: raised_rows() == 1)
        assert main(["metrics", "--project", str(tmp_path)]) == 0
        assert 'tandem_alert_raised{alert="many"} 1.0' in capsys.readouterr().out
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=300) == 0


@pytest.mark.slow
def test_a_sink_that_fails_is_tried_again(tmp_path: Path) -> None:
    made = world(tmp_path, toml="[supervisor]\nrestart_s = 1\n")
    (tmp_path / "lake").write_text("a file where a folder has to be")
    with process(made, ["tandem.cli", "sink"]) as sinks:
        assert sinks.stderr is not None
        failure = next(line for line in sinks.stderr if "failed" in line)
        assert "the sink failed and is tried again" in failure
        (tmp_path / "lake").unlink()
        wait_for(lambda: content(tmp_path / "lake" / "per_page") == {"/a": 2, "/b": 1})


@pytest.mark.slow
def test_a_sink_that_another_process_runs_is_refused_until_that_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = world(tmp_path)
    again = ["sink", "lake", "--once", "--project", str(tmp_path)]
    with process(made, ["tandem.cli", "sink", "lake", "--json"]) as first:
        assert first.stdout is not None
        assert json.loads(first.stdout.readline())["compared"]
        assert main(again) == 1
        assert f"sink 'lake' is run by `tandem sink` (pid {first.pid}, since " in capsys.readouterr().err
        assert main([*again[:1], "busy", *again[2:]]) == 0
        first.kill()
        first.wait()
        assert main(again) == 0


@pytest.mark.slow  # the pauses before two restarts, and three starts of a process
def test_a_supervisor_starts_the_killed_process_of_sinks_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = world(tmp_path, toml="[supervisor]\nrestart_s = 1\nfailures = 50\n")
    settings = Settings(state=str(tmp_path / ".tandem"))
    record.want(settings.folder, record.Wanted((SINK,), time.monotonic()))

    def pid() -> int | None:
        told = record.read(settings.folder)
        part = None if told is None else told.part(SINK)
        return part.pid if part is not None and part.state == "running" else None

    with process(made, ["tandem.cli.run.supervisor"]) as supervisor:
        for number in range(2):
            wait_for(lambda: pid() is not None)
            killed = pid()
            assert killed is not None
            made.append(0, hit(f"/{number}", 1))
            made.trigger()
            os.kill(killed, signal.SIGKILL)
            wait_for(lambda gone=killed: pid() not in (None, gone))
            wait_for(lambda last=number: content(tmp_path / "lake" / "per_page").get(f"/{last}") == 1)
        expected = {"/a": 2, "/b": 1, "/0": 1, "/1": 1}
        assert content(tmp_path / "lake" / "per_page") == expected
        states = {part.part: part.state for part in part_states(settings, now=datetime.now(UTC))}
        assert states[SINK] == "running"
        record.want(settings.folder, record.Wanted())
        assert supervisor.wait(timeout=300) == 0
    assert main(["logs", SINK, "--project", str(tmp_path)]) == 0
    assert "the sink writes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sinks", "words", "sentence"),
    [("", [], "the project has no sinks"), (SINKS, ["--once"], "--once needs the name of a sink")],
)
def test_a_wrong_call_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sinks: str, words: list[str], sentence: str
) -> None:
    world(tmp_path, sinks)
    assert main(["sink", *words, "--project", str(tmp_path)]) == 1
    assert sentence in capsys.readouterr().err
