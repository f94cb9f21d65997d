"""A sink's report says how far its target is behind the answers, which error was the last one, and whether a process runs it."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.cli.doctor import sinks as looks
from tandem.infra.folders import ROOT
from tandem.serving.read.merged_layers import Reader
from tandem.serving.status.sink_report import SinkReporter, TargetToken, forget_others, reports
from tandem.serving.status.sinks import SinkState, sink_states
from tests.cli.doctor.looked import fine, wrong
from tests.cli.metrics.figures import parsed
from tests.serving.world import DEFINITIONS, NOON, World, hit

SINK = '\nfrom tandem import Sink, delta_table\nlake = Sink(per_page, to=delta_table("lake"))\n'


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, definitions=DEFINITIONS + SINK)
    made.append(0, hit("/a", 1), hit("/b", 2))
    made.trigger()
    return made


def once(world: World, *, code: int = 0) -> None:
    """Run the sink once, in a process that ends."""
    command = [sys.executable, "-m", "tandem.cli", "sink", "lake", "--once", "--project", str(world.folder)]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=300).returncode == code


def state(world: World) -> SinkState:
    (only,) = sink_states(world.folder / ".tandem", Reader(world.tables).snapshot(), now=NOON + timedelta(days=20_000))
    return only


def test_the_lag_is_what_answers_count_and_the_token_does_not(world: World) -> None:
    once(world)
    first = state(world)
    assert (first.state, first.lag, first.lag_s, first.rows, first.comparisons) == ("stopped", 0, 0, 2, 1)
    world.append(0, hit("/a", 3), hit("/c", 1))
    world.trigger()
    late = state(world)
    assert (late.lag, late.token, late.problem) == (2, first.token, "sink lake is stopped, and its target lacks 2 offsets")
    assert late.lag_s is not None
    assert late.lag_s > 0
    once(world)
    again = state(world)
    assert (again.lag, again.lag_s, again.rows, again.steps, again.comparisons) == (0, 0, 2, 1, 0)


def test_a_publication_that_the_target_lacks_is_a_lag_in_seconds(world: World) -> None:
    once(world)
    world.recompute(world.end)
    behind = state(world)
    assert (behind.lag, bool(behind.lag_s)) == (0, True)
    # A run that finds no other row stores no token; a process that stays moves it on after some seconds.
    once(world)
    assert state(world).token == behind.token


def test_an_error_stays_until_the_next_one(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    once(world)
    (world.folder / "lake").rename(world.folder / "away")
    (world.folder / "lake").write_text("a file where a folder has to be")
    once(world, code=1)
    failed = state(world)
    assert (failed.errors, failed.lag) == (1, 0)
    assert failed.error is not None
    assert str(world.folder / "lake") in failed.error
    (world.folder / "lake").unlink()
    (world.folder / "away").rename(world.folder / "lake")
    once(world)
    assert (state(world).errors, state(world).error) == (0, failed.error)
    assert main(["status", "--json", "--project", str(world.folder)]) == 0
    (sink,) = json.loads(capsys.readouterr().out)["sinks"]
    assert (sink["sink"], sink["state"], sink["lag"], sink["error"]) == ("lake", "stopped", 0, failed.error)
    assert main(["status", "--project", str(world.folder)]) == 0
    assert "lake  per_page  stopped" in capsys.readouterr().out


@pytest.fixture
def reporter(world: World) -> SinkReporter:
    """The report of this test's process, which lives."""
    return SinkReporter(world.folder / ".tandem", "lake", "per_page", "hits", lambda: NOON)


def test_status_metrics_and_doctor_say_the_same(world: World, reporter: SinkReporter, capsys: pytest.CaptureFixture[str]) -> None:
    live = Reader(world.tables).snapshot().publication
    view = live.views["per_page"]
    token = TargetToken("t", live.release, view.fingerprint, view.version, world.writer.end.to_json())
    reporter.add_step(token, rows=2, gone=1, compared=True)
    assert (state(world).state, state(world).lag_s) == ("running", 0)
    assert "sink lake runs; its token counts 2 offsets, 0 offsets behind answers" in fine(world.folder, "sinks")
    reporter.add_failure("the disk is full")
    reporter.add_failure("the disk is full")
    assert (state(world).state, state(world).problem) == ("failing", "sink lake fails, and is tried again: the disk is full")
    assert "the disk is full" in wrong(world.folder, "sinks", looks.FAILING).what
    assert main(["metrics", "--project", str(world.folder)]) == 0
    figures = parsed(capsys.readouterr().out)
    expected = {"running": 0, "lag_offsets": 0, "lag_seconds": 0, "steps_total": 1, "rows_total": 2, "gone_rows_total": 1}
    expected |= {"comparisons_total": 1, "errors_total": 2}
    assert {name: figures[f"tandem_sink_{name}"][("lake",)] for name in expected} == expected
    reporter.add_step(token, rows=1, gone=0, compared=False)
    assert state(world).state == "running"
    assert "last error: the disk is full" in fine(world.folder, "sinks")


def test_the_doctor_names_a_sink_that_nothing_runs_or_that_is_late(world: World) -> None:
    assert "has never run" in wrong(world.folder, "sinks", looks.STOPPED).what
    once(world)
    assert "is stopped; its token counts 2 offsets" in wrong(world.folder, "sinks", looks.STOPPED).what
    SinkReporter(world.folder / ".tandem", "lake", "per_page", "hits", lambda: NOON)
    assert "sink lake runs" in fine(world.folder, "sinks")
    world.append(0, hit("/a", 3))
    world.trigger()
    assert "1 offset behind answers" in wrong(world.folder, "sinks", looks.LATE, now=NOON + timedelta(days=20_000)).what


def test_reports_of_sinks_that_are_gone_go(world: World, reporter: SinkReporter) -> None:
    state_folder = world.folder / ".tandem"
    assert [report.sink for report in reports(state_folder)] == ["lake"]
    forget_others(state_folder, frozenset({"lake"}))
    assert len(reports(state_folder)) == 1
    forget_others(state_folder, frozenset({"pond"}))
    assert reports(state_folder) == []
