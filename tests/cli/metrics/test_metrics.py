"""`tandem metrics` prints and serves the state of the log, and docs/metrics.md lists the metrics."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.cli.metrics.families import FAMILIES
from tandem.cli.metrics.table import markdown
from tandem.infra.folders import ROOT
from tandem.ledger.delta import delta_tables
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.audits import Audit, AuditFigures, Audits
from tandem.ledger.publish.rates import Rate, RunRates
from tandem.serving.status.part_state import STATES
from tandem.views.condition_result import ConditionResult
from tests.cli.metrics.figures import Samples, parsed
from tests.serving.world import NOON, World, forty_hits, hit, position
from tests.stack import PYTHONPATH, environ


@pytest.fixture
def world(tmp_path: Path) -> World:
    return forty_hits(tmp_path)


def printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Samples]:
    assert main(["metrics", "--project", str(folder)]) == 0
    return parsed(capsys.readouterr().out)


def test_every_metric_equals_the_log(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(world.folder, capsys)
    assert found["tandem_scrape_success"] == {(): 1}
    assert found["tandem_process_up"] == {("broker",): 0, ("speed",): 0}
    assert found["tandem_publication_number"] == {(): 2}
    assert found["tandem_release_number"] == {(): 1}
    assert found["tandem_publication_timestamp_seconds"][()] == pytest.approx(NOON.timestamp(), abs=86400)
    views = ("per_page", "ever", "inverse")
    assert found["tandem_position_offsets"] == {
        **{(view, "batch", "T", "0"): 31 for view in views},
        **{(view, "merged", "T", "0"): 31 for view in views},
        **{(view, "merged", "T", "1"): 10 for view in views},
    }
    assert found["tandem_records_total"] == {
        ("hits", "decoded", ""): 40,
        ("hits", "other_source", ""): 0,
        ("hits", "quarantined", "utf8"): 1,
        ("hits", "skipped", ""): 0,
    }
    assert found["tandem_archived_records_total"] == {("hits",): 31}
    nothing = ("late_events_total", "duplicate_events_total", "conflicting_events_total")
    assert [found[f"tandem_{name}"] for name in nothing] == [{("hits",): 0}] * 3
    assert found["tandem_after_final_events_total"] == dict.fromkeys([(view,) for view in views], 0)
    assert found["tandem_watermark_timestamp_seconds"] == {("hits",): NOON.timestamp()}
    assert found["tandem_cut_age_seconds"][("hits",)] >= found["tandem_newest_event_age_seconds"][("hits",)] > 0
    # No broker runs, so nobody knows these; missing is not 0.
    assert not {"tandem_log_end_offsets", "tandem_lag_offsets", "tandem_until_loss_seconds"} & set(found)
    realtime = world.tables.realtime(1, "hits")
    handle = delta_tables.open_table(world.tables, realtime)
    assert handle
    sizes = [
        path.stat().st_size
        for path in Path(realtime).rglob("*.parquet")
        if str(path.relative_to(realtime)) in delta_tables.files(handle)
    ]
    assert found["tandem_table_files"][("realtime", "hits")] == len(sizes)
    assert found["tandem_table_bytes"][("realtime", "hits")] == sum(sizes)


def test_a_condition_that_its_view_has_no_more_is_not_reported(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for version, unmet in ((1, {"n < 5": 2, "n > 0": 1}), (2, {"n < 5": 3})):
        results = [ConditionResult(condition, "warn", 40, rows) for condition, rows in unmet.items()]
        like = Audit(NOON, version, 1, 1, "ever", "", LOG_START, position(31))
        Audits(world.tables).record([replace(like, expectation=each) for each in results])
    assert printed(world.folder, capsys)["tandem_expectation_unmet_rows"] == {("ever", "n < 5", "warn"): 3}


def test_runs_and_audits_are_the_newest_and_estimates_use_earlier_runs(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for number, seconds in ((1, 10.0), (2, 30.0)):
        at = NOON + timedelta(hours=number)
        RunRates(world.tables).record(Rate(at, "hits", "full", rows=1000, bytes=50_000, views=3, seconds=seconds))
        figures = AuditFigures(
            rows=40, unequal=3, differ=number, largest=2.5, mean=0.5, smape=0.25, tolerance=0.0, cause="sketch"
        )
        Audits(world.tables).record(
            [
                Audit(at, number, 1, 1, "ever", "pages", LOG_START, position(31), figures=figures),
                Audit(at, number, 1, 1, "per_page", "", LOG_START, position(31), obstacle="gap"),
            ],
        )
    found = printed(world.folder, capsys)
    run = ("hits", "full")
    assert found["tandem_run_timestamp_seconds"] == {run: (NOON + timedelta(hours=2)).timestamp()}
    assert (found["tandem_run_rows"], found["tandem_run_bytes"]) == ({run: 1000}, {run: 50_000})
    assert (found["tandem_run_seconds"], found["tandem_run_estimated_seconds"]) == ({run: 30}, {run: 10})
    audited = ("ever", "pages")
    assert found["tandem_audit_timestamp_seconds"] == {audited: (NOON + timedelta(hours=2)).timestamp()}
    assert (found["tandem_audit_rows"], found["tandem_audit_differing_rows"]) == ({audited: 40}, {audited: 2})
    assert found["tandem_audit_largest_error"] == {audited: 2.5}
    assert found["tandem_audit_symmetric_error_ratio"] == {audited: 0.25}


def test_before_the_first_publication_unknown_metrics_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text("SOURCES = ()\nVIEWS = ()\n")
    found = printed(tmp_path, capsys)
    states = {(part, state): state == "not_started" for part in ("broker", "speed") for state in STATES}
    assert found == {
        "tandem_scrape_success": {(): 1},
        "tandem_process_up": {("broker",): 0, ("speed",): 0},
        "tandem_part_red": {("broker",): 0, ("speed",): 0},
        "tandem_part_state": states,
    }


def test_json_contains_the_same_text(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--json", "--project", str(world.folder)]) == 0
    assert parsed(json.loads(capsys.readouterr().out)["metrics"])["tandem_publication_number"] == {(): 2}


@pytest.mark.slow
def test_an_unreadable_project_fails_the_command_and_is_a_metric_when_served(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(world.folder) as (url, _):
        assert scraped(url)["tandem_records_total"][("hits", "decoded", "")] == 40
        for file in Path(world.tables.control("publications"), "_delta_log").iterdir():
            file.write_bytes(b"torn")
        assert scraped(url) == {"tandem_scrape_success": {(): 0}}
    assert main(["metrics", "--project", str(world.folder)]) == 1
    assert "publications" in capsys.readouterr().err


@pytest.mark.slow
def test_metrics_are_served_only_on_loopback_until_stopped(world: World) -> None:
    with served(world.folder) as (url, process):
        assert scraped(url)["tandem_publication_number"] == {(): 2}
        world.append(1, hit("/new", 1))
        world.trigger()
        assert scraped(url)["tandem_records_total"][("hits", "decoded", "")] == 41
        port = int(url.rpartition(":")[2].partition("/")[0])
        second = started(world.folder, port)
        _, said = second.communicate(timeout=300)
        assert second.returncode == 1
        assert f"cannot listen on port {port} of 127.0.0.1" in said
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_the_page_is_generated_from_the_code() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text("utf-8") == markdown(), "python -m tandem.cli.metrics.table > docs/metrics.md"


def test_names_follow_the_convention() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert family.name.startswith("tandem_")
        assert (family.kind == "counter") == family.name.endswith("_total"), family.name
        assert family.help.endswith("."), family.name


def started(folder: Path, port: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tandem.cli", "metrics", "--port", str(port), "--project", str(folder)],
        env={**environ(), "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, Any]]:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = started(folder, port)
    try:
        assert process.stderr
        began, serving = (json.loads(process.stderr.readline()) for _ in range(2))
        assert (began["event"], serving["event"]) == ("began", "serving")
        assert serving["url"] == f"http://127.0.0.1:{port}/metrics"
        yield f"http://127.0.0.1:{port}/metrics", process
    finally:
        process.kill()
        process.communicate()


def scraped(url: str) -> dict[str, Samples]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return parsed(answer.read().decode())
