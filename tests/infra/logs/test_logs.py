"""Logs are bounded, lose no line in a rotation, contain no secret, and are read in order of time."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tandem.infra.logs import files, telling
from tandem.infra.logs.files import LogBounds, LogFile
from tandem.infra.logs.lines import parse, shown
from tandem.infra.logs.reading import Following, merged, parts
from tandem.infra.logs.telling import LogSink, bound, logger
from tandem.infra.settings import MASK, KafkaSettings, LineageSettings, Settings, SparkSettings, secrets
from tests.stack import PYTHONPATH

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SMALL = LogBounds(bytes=200, kept=2)


def log_to(written: list[str], *, hidden: frozenset[str] = frozenset(), readable: bool = False):
    return logger([LogSink(written.append, readable=readable)], part="speed", hidden=hidden, now=lambda: NOON)


def files_of(path: Path) -> list[Path]:
    return [*reversed(files.earlier(path)), path]


def test_an_event_is_a_json_object_with_all_fields() -> None:
    written: list[str] = []
    with bound(release=3, source="hits"):
        log_to(written).bind(run="recompute-1").warning("going on", position=7)
    log_to(written).info("done")
    at = "2026-11-01T12:00:00.000Z"
    first, second = map(json.loads, written)
    assert first == {
        "time": at, "level": "warning", "part": "speed", "event": "going on",
        "release": 3, "source": "hits", "run": "recompute-1", "position": 7,
    }  # fmt: skip
    assert second == {"time": at, "level": "info", "part": "speed", "event": "done"}


def test_a_terminal_gets_text_instead_of_json() -> None:
    written: list[str] = []
    log_to(written, readable=True).info("going on", source="hits")
    assert "going on" in written[0]
    assert not written[0].startswith("{")


def test_no_log_contains_a_secret() -> None:
    said = 'pa"ss'
    settings = Settings(
        kafka=KafkaSettings(password=said),
        spark=SparkSettings(conf={"spark.hadoop.fs.s3a.secret.key": "s3cr3t"}),
        lineage=LineageSettings(token="t0ken"),
    )
    written: list[str] = []
    log = log_to(written, hidden=secrets(settings))
    log.info(said, deep={"conf": ["s3cr3t", said]}, error=ValueError("t0ken is wrong"))
    log.error("failed", exc_info=ValueError(said))
    whole = "".join(written)
    assert MASK in whole
    assert not [secret for secret in secrets(settings) if secret in whole]


def test_a_full_file_is_rotated_and_the_configured_number_stays(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "logs" / "speed.log", SMALL)
    for number in range(100):
        file.write(f"{number:09}")
    found = files_of(file.path)
    assert len(found) == 3
    assert all(path.stat().st_size <= SMALL.bytes for path in found)
    # A line has ten bytes: twenty fill a file, and what is gone are the oldest.
    assert [int(line) for path in found for line in path.read_text().split()] == list(range(40, 100))


WRITERS = """
import sys
from pathlib import Path
from tandem.infra.logs.files import LogBounds, LogFile
file = LogFile(Path(sys.argv[1]), LogBounds(bytes=2000, kept=1000))
for number in range(2000):
    file.write(f"{sys.argv[2]} {number}")
"""


def test_processes_that_share_a_log_neither_lose_nor_tear_lines(tmp_path: Path) -> None:
    path = tmp_path / "archive.log"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITERS, str(path), name], env={**os.environ, "PYTHONPATH": PYTHONPATH})
        for name in "ab"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    lines = [line for file in files_of(path) for line in file.read_text().splitlines()]
    assert sorted(lines) == sorted(f"{name} {number}" for name in "ab" for number in range(2000))


OWN = """
import os, sys
from pathlib import Path
from tandem.infra.logs.files import LogBounds, LogFile
file = LogFile(Path(sys.argv[1]), LogBounds(bytes=300, kept=9), standard=True)
for number in range(30):
    file.write(f"event {number:04}")
    print(f"print {number:04}", flush=True)
    os.system(f"echo child {number:04} >&2")
"""


def test_output_of_a_process_follows_its_log_after_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "speed.log"
    with path.open("ab") as sink:
        command = [sys.executable, "-c", OWN, str(path)]
        env = {**os.environ, "PYTHONPATH": PYTHONPATH}
        assert subprocess.run(command, stdout=sink, stderr=sink, env=env, check=False, timeout=300).returncode == 0
    assert len(files_of(path)) > 3
    lines = [line for file in files_of(path) for line in file.read_text().splitlines()]
    assert lines == [f"{what} {number:04}" for number in range(30) for what in ("event", "print", "child")]


def test_output_of_another_process_is_bounded_while_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "spark-speed.log"
    with path.open("ab") as sink:
        for number in range(100):
            sink.write(f"{number}\n".encode())
            sink.flush()
            files.empty(path, LogBounds(bytes=50, kept=1))
        assert path.stat().st_size < 60
        assert (tmp_path / "spark-speed.log.1").stat().st_size < 60
    assert path.read_text().endswith("99\n")


def test_a_line_without_a_logger_is_read() -> None:
    def read(text: str):
        line = parse(text.encode(), "spark-speed", at=NOON)
        assert line is not None
        return line.time, line.level, line.text

    assert parse(b"  \n", "speed", at=NOON) is None
    assert read("WARNING: Using incubator modules") == (NOON, "warning", "WARNING: Using incubator modules")
    assert read("tandem: no broker") == (NOON, "error", "tandem: no broker")
    assert read("# A fatal error has been detected")[1] == "info"
    assert read('{"event": 1}') == (NOON, "info", '{"event": 1}')
    told = '{"time":"2026-11-01T11:00:00.5Z","level":"fatal","event":"disk","exception":"java.io.IOException: full\\n\\tat x"}'
    assert read(told) == (NOON - timedelta(minutes=59, seconds=59.5), "error", "disk")
    line = parse(told.encode(), "broker", at=NOON)
    assert line is not None
    assert shown(line).splitlines()[1:] == ["    java.io.IOException: full", "    \tat x"]


def event(minute: int, text: str) -> str:
    at = (NOON + timedelta(minutes=minute)).isoformat()
    return json.dumps({"time": at, "level": "info", "event": text}) + "\n"


def test_parts_are_merged_by_time_through_their_earlier_files(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "speed.log.2").write_text(event(0, "a"))
    (logs / "speed.log.1").write_text(event(2, "c") + "a stray line\n")
    (logs / "speed.log").write_text(event(9, "f"))
    (logs / "broker.log").write_text(event(1, "b") + event(5, "d") + event(4, "e"))
    (logs / "broker.out").write_text("")
    assert parts(tmp_path) == ["broker", "speed"]
    assert [line.text for line in merged(tmp_path)] == ["a", "b", "c", "a stray line", "d", "e", "f"]
    assert [line.text for line in merged(tmp_path, {"broker"}.__contains__)] == ["b", "d", "e"]


def appended(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def following(tmp_path: Path) -> Callable[[], list[str]]:
    (tmp_path / "logs").mkdir()
    appended(tmp_path / "logs" / "speed.log", event(0, "before"))
    follow = Following(tmp_path)
    return lambda: [line.text for line in follow.new()]


def test_following_reads_each_new_line_once_also_of_later_parts(tmp_path: Path, following) -> None:
    speed, broker = tmp_path / "logs" / "speed.log", tmp_path / "logs" / "broker.log"
    assert following() == []
    appended(speed, event(2, "b") + event(3, "c")[:20])
    appended(broker, event(1, "a"))
    assert following() == ["a", "b"]
    appended(speed, event(3, "c")[20:])
    assert following() == ["c"]
    assert following() == []


def test_following_continues_in_the_next_file(tmp_path: Path, following) -> None:
    speed = tmp_path / "logs" / "speed.log"
    appended(speed, event(1, "a"))
    speed.rename(speed.with_name("speed.log.1"))
    assert following() == ["a"]
    appended(speed.with_name("speed.log.1"), event(2, "b"))
    appended(speed, event(3, "c"))
    assert following() == ["b", "c"]
    os.truncate(speed, 0)
    assert following() == []
    appended(speed, event(4, "d"))
    assert following() == ["d"]


def test_a_part_logs_to_its_file_and_to_another_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = telling.of_part(Settings(state=str(tmp_path)), "speed", now=lambda: NOON)
    log.info("ready")
    (line,) = merged(tmp_path)
    assert (line.part, line.text, line.time) == ("speed", "ready", NOON)
    assert json.loads(capfd.readouterr().err)["event"] == "ready"


def test_a_part_continues_if_its_stderr_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as nobody:
        monkeypatch.setattr(sys, "stderr", nobody)
        log = telling.of_part(Settings(state=str(tmp_path)), "speed", now=lambda: NOON)
        for text in ("one", "two"):
            log.info(text)
        assert [line.text for line in merged(tmp_path)] == ["one", "two"]
        os.dup2(os.open(os.devnull, os.O_WRONLY), writes)  # what it still holds goes somewhere
