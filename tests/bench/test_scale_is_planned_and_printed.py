"""`bench scale` runs one to four executors in turn, checks answers, and prints ratios with what limits them."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from tandem.bench.commands import BenchProject
from tandem.bench.scale import executors, micro_batch_keys, report
from tandem.bench.scale.cpu_quota import quotas
from tandem.bench.scale.executors import EXECUTORS, ExecutorsPlan, cases
from tandem.bench.scale.gains import gains
from tandem.bench.scale.ground import PARTS, Ground, TriggerWatch, machine
from tandem.bench.scale.micro_batch_keys import HeldKeys
from tandem.bench.scale.runs import Case, ExecutorsRun
from tandem.cli.demo.wait_for import wait_for
from tandem.cli.dev.bench_cluster import on_cluster
from tandem.infra import kafka
from tandem.infra.folders import child_environment
from tandem.infra.kafka import broker as embedded
from tandem.infra.process import background
from tandem.infra.settings import Settings
from tandem.ledger.log.positions import Position
from tandem.ledger.realtime.commits import Commit
from tests.stack import environ


def run(number: int, seconds: float, *, busy: float = 0.5, share: float = 1.0, differ: int = 0, round_: int = 0) -> ExecutorsRun:
    cpu = {"driver": 4.0, "executors": 10.0, "store": 4.0, "broker": 1.0}
    return ExecutorsRun(
        Case("recompute", 4, number, share, round_), 1_000, seconds, 19.0, cpu, busy, {"GET": 7, "PUT": 3}, differ
    )


def held(keys: int, peak: int, *, differ: int = 0) -> HeldKeys:
    return HeldKeys(keys, 1_000, 1.5, 400, peak, 64 * keys, 0.5, differ)


def test_more_and_fewer_executors_take_turns() -> None:
    plan = ExecutorsPlan(events=1_000, batch=100, partitions=(4,), rounds=2, limit_s=1)
    whole = [(case.round, case.share, case.executors, case.what) for case in cases(plan, 4, (1.0, 0.4))]
    assert whole[:4] == [(0, 1.0, 1, "archive"), (0, 1.0, 1, "recompute"), (0, 1.0, 1, "catch-up"), (0, 1.0, 2, "archive")]
    assert [case[2] for case in whole if case[0] == 1 and case[3] == "archive"] == [4, 3, 2, 1] * 2
    assert len(whole) == len(set(whole)) == 2 * 2 * 4 * 3


def test_the_gain_is_that_of_the_medians_of_the_rounds() -> None:
    (gain,) = gains(
        [run(1, 10), run(2, 6), run(2, 90, round_=1), run(1, 12, round_=1), run(1, 11, round_=2), run(2, 5, round_=2)], 2
    )
    assert [(step.executors, step.times, step.seconds) for step in gain.steps] == [(1, 1, 11), (2, 11 / 6, 6)]
    assert gain.fixed_s == pytest.approx(1)
    assert gain.limit.startswith(
        "what does not run in tasks side by side, 1.0 of 6.0 s (17%); the driver computed for 67% of the time; "
    )


def test_the_gain_by_cpu_has_the_driver_work_after_its_executors() -> None:
    (gain,) = gains([run(number, 10) for number in (1, 2, 4)], 2)
    assert [step.by_cpu for step in gain.steps] == pytest.approx([1, 14 / 9, 14 / 6.5])
    assert [step.times for step in gain.steps] == [1, 1, 1]
    assert gain.fixed_s == 10, "no executor shortened it"
    assert [step.efficiency for step in gain.steps] == [1, 1 / 2, 1 / 4]


@pytest.mark.parametrize(
    ("seconds", "bend"), [((12, 6, 4, 3), None), ((12, 7, 6, 5.5), 3), ((12, 11, 6, 3), 2), ((12, 6, 4.4, 4), 4)]
)
def test_it_bends_where_an_executor_adds_less_than_half_of_the_first(seconds: tuple[float, ...], bend: int | None) -> None:
    (gain,) = gains([run(number, each) for number, each in enumerate(seconds, 1)], 2)
    assert gain.bend == bend


def test_a_busy_machine_is_the_limit() -> None:
    (gain,) = gains([run(1, 10), run(2, 8, busy=1.9)], 2)
    assert gain.limit == "the machine; 1.9 of 2 cores were busy, 2.4 of them with this"
    (bounded,) = gains([run(1, 10, share=0.4), run(2, 8, share=0.4, busy=1.9)], 2)
    assert bounded.limit.startswith("what does not run in tasks side by side, 6.0 of 8.0 s (75%); the driver computed for 125% ")


def test_a_wrong_answer_is_said_and_counted() -> None:
    found: list[report.Found] = [run(1, 10), run(2, 6, differ=3), held(10, 5_000, differ=2)]
    assert report.wrong(found) == 5
    said = list(report.shown(found, machine(), complete=True))
    assert sum("every answer right" in line for line in said) == 1
    assert sum("requests GET 7, PUT 3" in line for line in said) == 2
    assert sum("3 ANSWERS WRONG" in line or "2 ANSWERS WRONG" in line for line in said) == 2


def test_lines_have_versions_machine_figures_and_ratios() -> None:
    said = list(report.shown([held(10, 5_000), held(110, 7_000), run(1, 10), run(2, 6)], machine(), complete=False))
    assert all(word in said[0] for word in ("cores", "load", "python", "pyspark", "deltalake", "duckdb"))
    assert said[1] == "INCOMPLETE: the time was over before everything was measured"
    assert "the driver's processes grow by 20 bytes with each key of a micro-batch" in said
    assert any("with 2, 1.67 times as fast as with one (by CPU 1.56), efficiency 0.83" in line for line in said)
    assert any("does not bend up to 2; limit: " in line for line in said)
    document = report.document([held(10, 5_000), run(1, 10), run(2, 6)], machine(), complete=False)
    assert (document["complete"], document["bytes_per_key"], document["wrong"]) == (False, None, 0)
    assert [step["times"] for gain in document["gains"] for step in gain["steps"]] == [1, 10 / 6]


def test_answers_of_keys_are_compared_with_the_numbers_that_were_sent() -> None:
    rows: list[dict[str, Any]] = [
        {"who": "user-0", "n": 3, "size": 0 + 2 + 4, "last": 4},
        {"who": "user-1", "n": 2, "size": 1 + 3, "last": 3},
    ]
    assert micro_batch_keys.wrong(rows, 2, 5) == 0
    assert micro_batch_keys.wrong(rows[:1], 2, 5) == 1
    assert micro_batch_keys.wrong([*rows[:1], rows[1] | {"n": 1}], 2, 5) == 1
    assert micro_batch_keys.wrong([*rows, rows[0] | {"who": "user-2"}], 2, 5) == 1


def test_the_rest_of_a_log_is_no_micro_batch_to_time() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    ends = [0, 100, 200, 203]
    commits = [
        Commit(Position.of({("T", 0): low}), Position.of({("T", 0): high}), 1, "fold", at=at + timedelta(seconds=high / 10))
        for low, high in pairwise(ends)
    ]
    assert micro_batch_keys.between(commits, 100) == [10.0]


def test_processes_that_start_later_are_bounded_too() -> None:
    with quotas(f"tandem-test-{os.getpid()}") as found, Popen(["sh", "-c", "read line; sleep 60 & read line"], stdin=-1) as shell:
        if found is None:
            pytest.skip("this process may make no group of the cpu controller")
        try:
            found.bound([shell.pid], 0.4)
            (group,) = found.groups
            assert (group / "cpu.cfs_quota_us").read_text() == "40000\n"
            assert (group / "cgroup.procs").read_text().split() == [str(shell.pid)]
            # A group that processes keep busy, here one below it, does not stop the next.
            (group / "busy").mkdir()
            found.release()
            found.bound([shell.pid], 0.4)
            assert len(found.groups) == 2
            (group / "busy").rmdir()
        finally:
            shell.kill()
    assert not group.exists()


def test_where_no_group_can_be_made_nothing_is_bounded(tmp_path: Path) -> None:
    with quotas("tandem-test", controller=tmp_path / "none") as found:
        assert found is None
    with quotas("tandem-test", controller=tmp_path) as found:
        assert found is None
    assert list(tmp_path.iterdir()) == []


def test_the_cpu_of_a_child_is_counted_also_after_its_end() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\ninput()"
    with TriggerWatch({"driver": [os.getpid()]}, memory=True) as watch:
        with Popen([sys.executable, "-c", busy], stdin=-1) as child:
            wait_for("the child to be seen", lambda: watch.cpu["driver"] >= 0.3 or None, seconds=60, meanwhile=lambda: None)
            child.kill()
        seen = watch.cpu["driver"]
    assert watch.cpu["driver"] >= seen >= 0.3
    assert watch.peak > 0
    watch.restart()
    assert watch.cpu["driver"] == 0


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("scale")
    own = child_environment(environ())
    settings = Settings(state=str(folder / "kafka"))
    with background.starting(settings.folder):
        process = embedded.start(settings, environ=own)
    try:
        place = BenchProject(folder, kafka.connect(embedded.address(settings)), 2, "1g")
        with on_cluster(place, own, process.pid) as found:
            yield found
    finally:
        background.stop(settings.folder, process, seconds=20)


@pytest.mark.slow
@pytest.mark.broker
def test_a_small_run_on_a_cluster_is_right(ground: Ground) -> None:
    said: list[str] = []
    plan = ExecutorsPlan(events=24_000, batch=3_000, partitions=(2,), rounds=1, limit_s=300)
    found = list(executors.measure(replace(ground, quotas=None), plan, said.append, lambda: True))
    assert [(one.case.what, one.case.executors) for one in found] == [
        (what, number) for number in EXECUTORS for what in ("archive", "recompute", "catch-up")
    ]
    assert [one.differ for one in found] == [0] * 12
    assert {part for one in found for part in one.cpu} == set(PARTS)
    assert all(seconds > 0 for one in found for part, seconds in one.cpu.items() if part in ("driver", "executors", "store"))
    assert all(one.requests.get("PUT", 0) > 0 for one in found if one.case.what == "recompute")
    assert len(list(gains(found, 2))) == 3


@pytest.mark.slow
@pytest.mark.broker
def test_a_small_run_of_micro_batches_is_right(ground: Ground) -> None:
    plan = micro_batch_keys.KeysPlan(events=3_000, batches=3, keys=(10, 1_000), limit_s=300)
    few, many = micro_batch_keys.measure(ground, plan, lambda _: None, lambda: True)
    assert (few.differ, many.differ) == (0, 0)
    assert few.partial < many.partial
    assert few.peak > few.base > 0


def test_nothing_begins_when_the_time_is_over(tmp_path: Path) -> None:
    # No connection: a command would fail.
    place = BenchProject(tmp_path, kafka.BrokerConnection.__new__(kafka.BrokerConnection), 2, "1g")
    none = Ground(place, {}, (), list, {}, None, dict)
    assert list(executors.measure(none, executors.QUICK, print, lambda: False)) == []
    assert list(micro_batch_keys.measure(none, micro_batch_keys.QUICK, print, lambda: False)) == []
