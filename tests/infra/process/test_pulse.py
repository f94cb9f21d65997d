"""A part's pulse: the last work of its loops, by the machine's monotonic clock, and the process that wrote it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.infra.process import pulse
from tandem.infra.process.pulse import Heart, SourceLoop
from tests.stack import PYTHONPATH


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def heart(tmp_path: Path, clock: list[float]) -> Heart:
    return Heart(tmp_path, "speed", lambda: clock[0])


def test_a_beat_names_the_process_that_wrote_it(tmp_path: Path, heart: Heart) -> None:
    assert pulse.read(tmp_path, "speed") is None
    heart.beat(3)
    found = pulse.read(tmp_path, "speed")
    assert found is not None
    assert (found.pid, found.at, found.live, found.loops, found.lives) == (os.getpid(), 100.0, 3, (), True)
    pulse.file(tmp_path, "speed").write_bytes(b"torn")
    assert pulse.read(tmp_path, "speed") is None


def test_beats_are_written_at_most_twice_a_second(tmp_path: Path, heart: Heart, clock: list[float]) -> None:
    seen = set()
    for step in range(100):
        clock[0] = 100 + step / 20
        heart.beat()
        seen.add(pulse.read(tmp_path, "speed").at)
    assert 8 <= len(seen) <= 10
    assert clock[0] - max(seen) < 0.5


def test_each_source_has_its_own_progress(tmp_path: Path, heart: Heart, clock: list[float]) -> None:
    heart.begins(1, "sales")
    heart.begins(1, "visits")
    clock[0] = 110
    heart.looked(1, "sales")
    clock[0] = 120
    heart.waits(1, "sales", "no broker")
    found = pulse.read(tmp_path, "speed")
    assert found is not None
    assert found.loops == (SourceLoop(1, "sales", 120, 110, "no broker"), SourceLoop(1, "visits", 100))
    clock[0] = 130
    heart.looked(1, "sales")
    heart.ends(1, "visits")
    found = pulse.read(tmp_path, "speed")
    assert found is not None
    assert found.loops == (SourceLoop(1, "sales", 130, 130),)


def test_a_report_after_the_end_of_a_source_is_ignored(tmp_path: Path, heart: Heart) -> None:
    heart.begins(1, "sales")
    heart.ends(1, "sales")
    heart.looked(1, "sales")
    heart.waits(1, "sales", "no broker")
    found = pulse.read(tmp_path, "speed")
    assert found is not None
    assert found.loops == ()


def test_the_pulse_of_a_dead_process_stays_and_shows_that_it_ended(tmp_path: Path) -> None:
    script = (
        f"from pathlib import Path; from tandem.infra.process.pulse import Heart; Heart(Path({str(tmp_path)!r}), 'speed').beat()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": PYTHONPATH})
    found = pulse.read(tmp_path, "speed")
    assert found is not None
    assert not found.lives


def test_a_read_only_folder_does_not_end_the_process(tmp_path: Path, heart: Heart) -> None:
    (tmp_path / "run").touch()
    heart.beat()
    heart.begins(1, "sales")
