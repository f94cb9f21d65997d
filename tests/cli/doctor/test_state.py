"""Locks and their holders, and interrupted work: each finding names the command that completes it, unless it is running."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.cli.doctor import state as looks
from tandem.infra.process import background
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.one_writer.write_locks import LockOwner
from tandem.ledger.log.archive_runs import IMPORT, ArchiveLedger
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish import adoption
from tandem.ledger.publish.diffs import ReleaseDiff, ReleaseDiffs
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.standing import Stage, StandingReleases
from tandem.speed.source import checkpoints
from tandem.views.project import project
from tandem.views.source.offset_ranges import Ranges
from tests.cli.doctor.looked import LATER, fine, wrong
from tests.ledger.tiny import AT, at
from tests.serving.world import NOON, SOURCE, World, hit, position

_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "ab")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Iterator[int]:
    """The lock in the hands of another process, whose pid this is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", _HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield holder.pid
        finally:
            holder.stdin.close()


def ended() -> int:
    """The pid of a process that is gone."""
    done = subprocess.Popen(["/bin/true"])
    done.wait()
    return done.pid


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / ".tandem").mkdir()
    return tmp_path


@pytest.fixture
def tables(folder: Path) -> Tables:
    return Tables(str(folder / ".tandem" / "tables"))


def test_a_lock_names_its_holder(folder: Path, tables: Tables) -> None:
    assert fine(folder, "locks") == "none is held"
    lock = tables.lock("archive")
    with held(lock) as pid:
        owners = lock.with_name("archive.lock.owner")
        owners.write_text(json.dumps(asdict(LockOwner("tandem archive", os.getpid(), "2026-11-01"))))
        told = fine(folder, "locks")
        assert told == f"held: archive.lock by tandem archive (pid {os.getpid()}, since 2026-11-01)"
        owners.write_text(json.dumps(asdict(LockOwner("tandem archive", ended(), "2026-11-01"))))
        found = wrong(folder, "locks", looks.ORPHAN)
        assert f"process {pid} holds " in found.what
        assert "; tandem archive (pid " in found.what
        assert found.what.endswith(", which has ended, took it")
        assert f"`kill {pid}`" in (found.fix or "")
        owners.unlink()
        assert "; an unknown process took it" in wrong(folder, "locks", looks.ORPHAN).what
    assert fine(folder, "locks") == "none is held"
    lock.unlink()
    lock.mkdir()
    wrong(folder, "locks")


def test_a_dead_part_is_a_finding(folder: Path, tables: Tables) -> None:
    assert fine(folder, "processes") == "nothing is running"
    state = folder / ".tandem"
    child = background.spawn(state, "speed", ["/bin/sleep", "600"], environ=os.environ, folder=folder)
    try:
        assert fine(folder, "processes") == f"running: speed (process {child.process.pid})"
        child.popen.send_signal(signal.SIGSTOP)
        while not background.stopped(child.process):
            pass
        assert "the speed layer has been stuck" in wrong(folder, "processes", looks.STILL).what
        child.popen.send_signal(signal.SIGCONT)
    finally:
        child.popen.kill()
        child.popen.wait()
    found = wrong(folder, "processes", looks.GONE)
    assert (found.what, f"see `{child.process.log}`" in (found.fix or "")) == (
        f"speed (process {child.popen.pid}) is dead",
        True,
    )
    (state / "run" / "speed.json").write_text("{")
    wrong(folder, "processes", looks.BAD_RECORD)
    assert main(["down", "--project", str(folder)]) == 0
    assert fine(folder, "processes") == "nothing is running"
    (state / "run" / "speed.json").mkdir()
    wrong(folder, "processes")


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What is published, and three events in the archive."""
    world = World(tmp_path_factory.mktemp("archived"))
    world.append(0, *(hit(f"/{n}", n) for n in range(3)))
    world.file_in_archive()
    return world


@pytest.fixture
def world(archived: World, tmp_path: Path) -> World:
    """The same, to go on with."""
    return archived.moved(tmp_path)


def test_an_incomplete_archive_run_is_a_finding_unless_one_is_active(world: World, tmp_path: Path) -> None:
    assert fine(tmp_path, "runs") == "all archive runs are complete"
    ArchiveLedger(world.tables, SOURCE).intend(start=world.end, end=position(5), by="archive", at=NOON)
    assert wrong(tmp_path, "runs", looks.UNFINISHED_RUN).what == f"source '{SOURCE}': run 2 of 2 is incomplete"
    with held(world.tables.lock("archive")):
        assert fine(tmp_path, "runs") == "an archive run is active"


def test_a_run_is_complete_once_every_standing_release_has_it(world: World, tmp_path: Path) -> None:
    (tmp_path / "definitions.py").write_text(world.definitions.replace("Scale(2)]", "Scale(2)]\n    more: int = 0"))
    beside(world, "built")
    wrong(tmp_path, "runs", looks.UNFINISHED_RUN)


def beside(world: World, stage: Stage) -> int:
    """A release of what the folder defines by now, in a stage beside the live one."""
    release = adoption.adopt(world.tables, project.load(world.folder), by="test", at=NOON)
    StandingReleases(world.tables).record(stage, replace(world.live, release=release.number))
    return release.number


def test_an_incomplete_import_is_a_finding(folder: Path, tables: Tables) -> None:
    ArchiveLedger(tables, "numbers").intend(start=LOG_START, end=at(5, 5), by=IMPORT, at=AT)
    wrong(folder, "runs", looks.UNFINISHED_IMPORT)


def test_a_gap_is_a_finding_until_a_publication_accepts_it(world: World, tmp_path: Path) -> None:
    assert fine(tmp_path, "gaps") == "no recorded losses"
    gap = Gaps(world.tables).record(SOURCE, Ranges.of({("T", 0): (0, 3)}), reason="the log began at 3", at=NOON)
    found = wrong(tmp_path, "gaps", looks.GAP)
    assert found.what == f"gap {gap.name} of source '{SOURCE}': 3 offsets are lost (the log began at 3)"
    assert found.fix == f"`tandem recompute --accept-gap {gap.name}` continues without these records"
    built = replace(world.live, parent=world.live.number, kind="recompute", gaps=(gap.name,))
    Publications(world.tables).publish(lambda _: built)
    assert fine(tmp_path, "gaps") == "every recorded loss is accepted"


def test_unreadable_records_of_runs_and_releases_are_findings(world: World, tmp_path: Path) -> None:
    for file in Path(world.tables.control("publications")).glob("*.parquet"):
        file.unlink()
    for check in ("runs", "apply", "clock"):
        wrong(tmp_path, check)


def test_an_interrupted_apply_is_a_finding_until_it_is_complete(world: World, tmp_path: Path) -> None:
    assert fine(tmp_path, "apply") == "no incomplete apply"
    (tmp_path / "definitions.py").write_text(world.definitions.replace("bytes > 0", "bytes > 1"))
    number = beside(world, "applied")
    assert wrong(tmp_path, "apply", looks.UNFINISHED_APPLY).what == f"release {number} is not built"
    with held(world.tables.lock("views")):
        assert fine(tmp_path, "apply") == "a batch run is active"
    beside(world, "built")
    assert "not compared" in wrong(tmp_path, "apply", looks.UNFINISHED_APPLY).what
    ReleaseDiffs(world.tables).record(ReleaseDiff(NOON, number, 1, {}))
    fine(tmp_path, "apply")
    assert number == 2
    (tmp_path / "definitions.py").write_text(world.definitions.replace("bytes > 0", "bytes > 2"))
    assert beside(world, "applied") == 3
    assert "`tandem retire 3`" in (wrong(tmp_path, "apply", looks.UNFINISHED_APPLY).fix or "")
    assert main(["retire", "3", "--project", str(tmp_path)]) == 0
    fine(tmp_path, "apply")
    assert Publications(world.tables).latest() == world.live


def test_left_over_scratch_files_are_a_finding_and_are_deleted(folder: Path, tables: Tables) -> None:
    assert fine(folder, "leftovers") == "no left-over files"
    left = Path(tables.root) / "scratch" / "verify" / "part.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    assert wrong(folder, "leftovers", looks.SCRATCH).what == f"1 file in {tables.root}/scratch"
    with held(tables.lock("views")):
        fine(folder, "leftovers")
    assert main(["maintain", "--project", str(folder)]) == 0
    fine(folder, "leftovers")


def test_checkpoints_of_a_dead_speed_layer_are_a_finding_and_the_next_deletes_them(folder: Path, tables: Tables) -> None:
    state = folder / ".tandem"
    mine = checkpoints.own_folder(state)
    fine(folder, "leftovers")
    dead = mine.with_name(f"{ended()}-x")
    dead.mkdir()
    assert wrong(folder, "leftovers", looks.CHECKPOINTS).what == str(dead)
    checkpoints.own_folder(state)
    assert (mine.exists(), dead.exists()) == (True, False)
    fine(folder, "leftovers")


@pytest.mark.parametrize("busy", ["speed", "archive", "young"])
def test_folders_of_a_killed_spark_are_a_finding_unless_spark_is_active(folder: Path, tables: Tables, busy: str) -> None:
    state = folder / ".tandem"
    for name in ("blockmgr-1", "spark-2"):
        (state / "spark" / name).mkdir(parents=True)

    def used(seconds: int) -> None:
        """So long ago."""
        for path in (state / "spark").iterdir():
            os.utime(path, (LATER.timestamp() - seconds,) * 2)

    used(7200)
    fix = wrong(folder, "leftovers", looks.SPARK).fix or ""
    assert f"`rm -r {state}/spark/blockmgr-1 {state}/spark/spark-2`" in fix
    if busy == "speed":
        checkpoints.own_folder(state)
        fine(folder, "leftovers")
    elif busy == "young":
        used(60)
        fine(folder, "leftovers")
    else:
        with held(tables.lock(busy)):
            fine(folder, "leftovers")
