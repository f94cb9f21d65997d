"""The campaign's parts that need no process: even shares, the oracle, misleading ends, counts; and a short campaign."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest

from tandem.cli.__main__ import main
from tandem.infra.folders import ROOT
from tests.campaign import project
from tests.campaign.answers import oracle
from tests.campaign.answers.comparer import Comparer
from tests.campaign.answers.oracle import Record
from tests.campaign.campaign import lost_records
from tests.campaign.commands import Running, wait_until
from tests.campaign.disturbance import faults
from tests.campaign.disturbance.faults import Fault, drawn
from tests.campaign.disturbance.injury import Injury, lives
from tests.campaign.disturbance.machine import Clock, LeftOut, private_mounts
from tests.campaign.messages import Ended, calls_it_well, misleading
from tests.campaign.tally import FINDINGS, Tally, lines
from tests.stack import PYTHONPATH, environ

START = datetime(2026, 1, 1, tzinfo=UTC)


def sale(number: int, *, seconds: float, shop: str = "a", amount: int = 1) -> bytes:
    at = (START + timedelta(seconds=seconds)).isoformat()
    return project.line({"id": number, "at": at, "shop": shop, "amount": amount})


@pytest.mark.parametrize("seed", range(5))
def test_every_kind_has_an_even_share_at_any_time(seed: int) -> None:
    kinds = [*faults.ALWAYS, faults.FULL_DISK, *faults.CLOCK]
    assert len(set(kinds)) == len(kinds)
    counts: Counter[Fault] = Counter(dict.fromkeys(kinds, 0))
    for fault in islice(drawn(kinds, random.Random(seed)), 500):
        counts[fault] += 1
        assert max(counts.values()) - min(counts.values()) <= 1


def test_the_oracle_counts_each_event_once_below_the_position() -> None:
    records = [
        Record(0, 0, sale(1, seconds=0, amount=3)),
        Record(0, 1, b"no event"),
        Record(1, 0, sale(1, seconds=0, amount=3)),
        Record(1, 1, sale(2, seconds=59, amount=4)),
        Record(1, 2, sale(3, seconds=60, amount=50)),
        Record(0, 2, sale(4, seconds=61, amount=1)),
    ]
    below = oracle.sales(records, {0: 2, 1: 3})
    assert sorted(one.id for one in below) == [1, 2, 3]
    assert oracle.per_minute(below, 4) == [
        {"shop": "a", "window_start": "2026-01-01T00:00:00Z", "window_end": "2026-01-01T00:01:00Z", "n": 1, "sum": 4},
        {"shop": "a", "window_start": "2026-01-01T00:01:00Z", "window_end": "2026-01-01T00:02:00Z", "n": 1, "sum": 50},
    ]
    assert oracle.per_shop(below, 4) == [
        {"window_start": None, "window_end": None, "shop": "a", "n": 3, "sum": 57, "least": 3, "most": 50}
    ]
    assert oracle.sales(records, {}) == []


def test_a_visit_ends_where_the_gap_has_passed() -> None:
    times = (0, oracle.SESSION_S - 1, 2 * oracle.SESSION_S - 1)
    records = [Record(0, n, sale(n, seconds=seconds, amount=99)) for n, seconds in enumerate(times)]
    visits = oracle.per_visit(oracle.sales(records, {0: 3}), 0)
    assert [(visit["window_start"][-4:-1], visit["window_end"][-4:-1], visit["n"]) for visit in visits] == [
        (":00", ":39", 2),
        (":39", ":59", 1),
    ]


@pytest.mark.parametrize("view", oracle.VIEWS)
def test_tandem_and_the_oracle_agree_on_the_projects_own_events(
    view: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = tmp_path / "project", tmp_path / "events"
    project.write(folder, state=tmp_path / "state", port=1)
    project.edit(folder, 7)
    values = [project.line(event) for event in islice(project.events(random.Random(1)), 20_000)]
    values += [*values[::50], b"no event"]
    file.write_bytes(b"\n".join(values))
    assert main(["try", view, str(file), "--project", str(folder), "--json"]) == 0
    records = [Record(0, offset, value) for offset, value in enumerate(values)]
    expected = oracle.VIEWS[view](oracle.sales(records, {0: len(values)}), 7)
    assert len(expected) >= 10
    assert oracle.difference(expected, json.loads(capsys.readouterr().out)["rows"]) == ""


def test_a_planted_wrong_answer_is_counted(tmp_path: Path) -> None:
    records = [Record(0, n, sale(n, seconds=n, amount=n)) for n in range(5)]
    right = oracle.per_shop(oracle.sales(records, {0: 4}), 0)
    for rows, wrong in ((right, 0), ([{**right[0], "sum": 7}], 1), ([], 1), ([*right, *right], 1)):
        tally = Tally(tmp_path / "evidence")
        assert compared(tally, records, rows, {0: 4}) == {0: 4}
        assert (tally.counts["comparisons"], tally.findings["wrong answers"]) == (1, wrong)
        assert tally.held == (not wrong)
    labelled = [{**row, "window_state": "open", "_exactness": ["duplicates"]} for row in right]
    assert compared(tally := Tally(tmp_path / "evidence"), records, labelled, {0: 4}) == {0: 4}
    assert tally.held


def test_an_answer_beyond_the_log_is_not_checked(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "evidence")
    assert compared(tally, [], [], {0: 1}) is None
    assert tally.counts["unchecked answers"] == 1
    assert not tally.held, "nothing was compared"


def compared(tally: Tally, records: list[Record], rows: list[dict[str, Any]], position: dict[int, int]) -> Any:
    """Compare an answer that is planted, of a log that is planted."""

    class Planted:
        def records(self, position: oracle.Position, *, seconds: float) -> list[Record] | None:
            return records if all(offset <= len(records) for offset in position.values()) else None

        def rows(self, view: str) -> Any:
            return rows, {
                "release": 1,
                "hot": None,
                "realtime": {"topic": {str(number): offset for number, offset in position.items()}},
            }

    planted: Any = Planted()
    return Comparer(planted, planted, planted, tally, {1: 0}, random.Random(0)).compare("http", "per_shop")


def test_what_the_hot_tail_found_to_differ_is_a_wrong_answer_once(tmp_path: Path) -> None:
    class Planted:
        told = iter([(1, 0), (3, 2), (4, 2), (1, 0), (2, 1)])

        def status(self) -> Any:
            compared, mismatched = next(self.told)
            return {"sources": {project.SOURCE: {"hot": {"compared": compared, "mismatched": mismatched}}}}

    planted, tally = Planted(), Tally(tmp_path / "evidence")
    nothing: Any = None
    server: Any = planted
    comparer = Comparer(nothing, server, nothing, tally, {}, random.Random(0))
    for compared, differ in ((1, 0), (3, 2), (4, 2), (4, 2), (5, 3)):
        comparer.compare_hot()
        assert (tally.counts["views compared by the hot tail"], tally.findings["wrong answers"]) == (compared, differ)


def test_an_acknowledged_record_that_is_not_in_the_log_is_lost() -> None:
    records = [Record(0, 0, sale(1, seconds=0)), Record(1, 0, sale(2, seconds=0))]
    assert list(lost_records(records, {1, 2}, {(0, 0): 1, (1, 0): 2})) == []
    assert [lost for _, lost in lost_records(records, {1, 2, 3}, {})] == [[3]]
    assert [lost for _, lost in lost_records(records, {1, 2}, {(0, 0): 2, (1, 7): 2})] == [[(0, 0), (1, 7)]]


STACK = 'Traceback (most recent call last):\n  File "x.py", line 1\n'
JAVA = "org.apache.kafka.X: y\n\tat kafka.log.UnifiedLog.append(UnifiedLog.scala:1)\n"
GOOD = [
    Ended(("query", "v"), 0, '{"rows": []}\n', ""),
    Ended(("status",), 3, '{"parts": []}\n', ""),
    Ended(("archive",), 1, '{"error": "the broker does not answer"}\n', "tandem: the broker does not answer\n"),
    Ended(("archive",), -9, "", "", killed=True),
    Ended(("archive",), 1, '{"error": "Spark\'s Java process has ended"}\n', "", killed=True),
]
BAD = [
    (Ended(("query", "v"), 4, '{"rows": []}', ""), "exit code 4"),
    (Ended(("query", "v"), -11, "", ""), "exit code -11"),
    (Ended(("archive",), 3, '{"rows": []}', ""), "exit code 3"),
    (Ended(("archive",), 1, "{}", ""), "no document"),
    (Ended(("archive",), 1, '{"done": 1}', ""), "no reason"),
    (Ended(("archive",), 0, "archived\n", ""), "no document"),
    (Ended(("archive",), 1, '{"error": "KeyError: 3; --debug shows where"}', ""), "foresaw"),
    (Ended(("archive",), 0, '{"done": 1}', STACK), "stack"),
    (Ended(("archive",), 0, '{"done": 1}', JAVA), "stack"),
    (Ended(("archive",), -9, "", JAVA, killed=True), "stack"),
    (Ended(("archive",), 1, "", "", killed=True), "no document"),
]


@pytest.mark.parametrize("ended", GOOD)
def test_a_clean_end_is_not_misleading(ended: Ended) -> None:
    assert misleading(ended) == []


@pytest.mark.parametrize(("ended", "why"), BAD)
def test_a_misleading_end_is_found(ended: Ended, why: str) -> None:
    assert why in "; ".join(misleading(ended))


class Short(random.Random):
    """Draws the shortest time, and the first of several."""

    def uniform(self, a: float, b: float) -> float:
        return min(a, b) / 10

    def choice(self, seq: Any) -> Any:
        return seq[0]


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Running]:
    """A command that has started another process, and runs until it is ended."""
    # It does not end when the other one does, which is killed first.
    sleep = "import time; time.sleep(600)"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleep!r}]); {sleep}"
    popen = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    running = Running(("archive",), popen, tmp_path / "output", 0.0)
    assert wait_until(lambda: len(running.family()) == 2, seconds=60)
    yield running
    running.kill()
    popen.wait(60)


def test_a_command_is_killed_with_its_children(family: Running, tmp_path: Path) -> None:
    members, tally = family.family(), Tally(tmp_path / "evidence")
    _injury(tally)._disturb(family, Fault("kill", "archive"))
    assert family.popen.wait(60) == -signal.SIGKILL
    assert wait_until(lambda: not any(map(lives, members)), seconds=60)
    assert family.killed
    assert tally.faults == {Fault("kill", "archive"): 1}


def test_a_command_is_frozen_with_its_children_and_continues(family: Running, tmp_path: Path) -> None:
    members, tally, frozen = family.family(), Tally(tmp_path / "evidence"), list[bool]()

    class UntilFrozen(Short):
        """Draws the length of the freeze, which has begun, once all members have stopped."""

        def uniform(self, a: float, b: float) -> float:
            stopped = wait_until(lambda: all(member.status() == psutil.STATUS_STOPPED for member in members), seconds=60)
            frozen.append(stopped)
            return 0 * super().uniform(a, b)

    _injury(tally, UntilFrozen())._disturb(family, Fault("freeze", "archive"))
    assert frozen == [True]
    assert wait_until(lambda: not any(member.status() == psutil.STATUS_STOPPED for member in members), seconds=60)
    assert not family.killed
    assert tally.faults == {Fault("freeze", "archive"): 1}


def _injury(tally: Tally, dice: random.Random | None = None) -> Injury:
    nothing: Any = None
    return Injury(nothing, nothing, nothing, tally, dice or Short())


def test_reporting_health_while_a_part_is_stuck_is_misleading() -> None:
    assert calls_it_well(code=3, ready=503) == calls_it_well(code=3, ready=None) == []
    assert len(calls_it_well(code=0, ready=503)) == len(calls_it_well(code=3, ready=200)) == 1


def test_the_result_has_every_count(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "evidence")
    tally.left_out.append("full disk: no room")
    tally.did(Fault("kill", "broker"))
    tally.did(Fault("kill", "broker"))
    tally.count("comparisons")
    assert tally.held
    for finding in FINDINGS:
        one = Tally(tmp_path / "another", counts=Counter(comparisons=1))
        assert one.held
        one.found(finding)
        assert not one.held
        tally.found(finding, why="planted")
    document = tally.document(seed=7, minutes=3)
    assert not document["held"]
    assert [document[finding] for finding in FINDINGS] == [1, 1, 1, 1]
    assert (document["faults"], document["faults_in_all"]) == ({"kill broker": 2}, 2)
    assert {"seed: 7", "  kill broker: 2", "left out: full disk: no room", "wrong answers: 1"} <= set(lines(document))
    noted = [json.loads(line) for line in tally.evidence.read_text().splitlines()]
    assert [line["finding"] for line in noted if line["what"] == "FOUND"] == list(FINDINGS)


@pytest.mark.slow
def test_a_disk_is_filled_while_others_write(tmp_path: Path) -> None:
    """It has room for a file of 16 blocks between the look at what is used and the new size, and the writer writes more."""
    if not (words := private_mounts()):
        pytest.skip("no mount namespace can be made here (unshare -rm)")
    code = (
        "import pathlib, sys, threading\n"
        "from tests.campaign.disturbance.machine import Disk\n"
        "disk, stop = Disk.mounted(pathlib.Path(sys.argv[1])), threading.Event()\n"
        "def write():\n"
        "    with (disk.folder / 'file').open('ab', buffering=0) as file:\n"
        "        while not stop.wait(0.001):\n"
        "            try: file.write(bytes(100_000))\n"
        "            except OSError: pass\n"
        "writer = threading.Thread(target=write)\n"
        "writer.start()\n"
        "try:\n"
        "    for _ in range(10):\n"
        "        disk.fill(); disk.enlarge()\n"
        "finally: stop.set(); writer.join(); disk.unmount()\n"
    )
    environment = {**environ(), "PYTHONPATH": os.pathsep.join([PYTHONPATH, str(ROOT)])}
    done = subprocess.run(
        [*words, sys.executable, "-c", code, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_stepped_clock_does_not_change_waits(tmp_path: Path) -> None:
    """A process that prints date and monotonic clock whenever it is asked, and waits in three ways before."""
    try:
        clock = Clock.of(tmp_path)
    except LeftOut as reason:
        pytest.skip(str(reason))
    code = (
        "import ctypes, struct, sys, threading, time\n"
        "libc, never = ctypes.CDLL(None), ctypes.create_string_buffer(64)\n"
        "libc.sem_init(never, 0, 0)\n"
        "for _ in sys.stdin:\n"
        "    began = time.monotonic()\n"
        "    time.sleep(0.05); threading.Event().wait(0.05)\n"
        "    libc.sem_timedwait(never, struct.pack('qq', int(time.time()) + 2, 0))\n"
        "    print(time.time(), time.monotonic(), time.monotonic() - began, flush=True)\n"
    )
    told: list[list[float]] = []
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **clock.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for step in (0, -7200, 7200, 0):
            clock.step_to(step)
            process.stdin.write("tell\n")
            process.stdin.flush()
            told.append([float(word) for word in process.stdout.readline().split()])
            assert 1 < told[-1][2] < 60, "a wait until a date of its own clock"
        process.stdin.close()
    ahead = [date - told[0][0] - (monotonic - told[0][1]) for date, monotonic, _ in told]
    assert [round(seconds, 1) for seconds in ahead] == [0, -7200, 7200, 0]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(1800)
def test_a_short_campaign_finds_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.campaign", "3", "--folder", str(tmp_path / "campaign")],
        cwd=ROOT,
        env={**environ(), "PYTHONPATH": os.pathsep.join([PYTHONPATH, str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "campaign" / "result.json").read_text())
    assert document["held"]
    assert document["faults_in_all"] >= 1
    assert document["comparisons"] >= 6 * len(oracle.VIEWS)
    assert document["comparisons before the commit"] >= 1
    assert document["views compared by the hot tail"] >= 1
