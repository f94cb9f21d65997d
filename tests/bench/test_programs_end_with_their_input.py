"""The programs that a benchmark starts end with their standard input, also if the benchmark was killed; one module watches it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tandem.bench.peers.provided import script
from tandem.infra.folders import ROOT, child_environment

PROGRAM = """
import sys
from tandem.bench.input_end import watched
print(watched().wait(float(sys.argv[1])), flush=True)
"""


@contextmanager
def running(*words: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process with pipes, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=child_environment({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_event_is_set_once_the_input_has_ended(tmp_path: Path) -> None:
    with running("-c", PROGRAM, "60", folder=tmp_path) as process:
        said, _ = process.communicate(b"x", timeout=300)
    assert said == b"True\n"


def test_the_event_is_not_set_before(tmp_path: Path) -> None:
    with running("-c", PROGRAM, "0.5", folder=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"False\n"


def test_no_other_module_waits_for_the_end_of_its_input() -> None:
    """Except the program that runs in the peers' environment."""
    waiting = {path.name for path in (ROOT / "bench").rglob("*.py") if re.search(r"stdin\.read\(", path.read_text("utf-8"))}
    assert waiting == {"input_end.py", "topic_reader.py"}


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("partial_rows_reader", ["table", "x"]),
        ("http_reader", ["address", "token", "view", "x"]),
        ("changes_reader", ["address", "token", "view", "x"]),
        ("served_reader", ["state", "view", "x"]),
    ],
)
def test_a_program_ends_with_its_input(program: str, arguments: list[str], tmp_path: Path) -> None:
    with running(script(program), *arguments, folder=tmp_path) as process:
        process.communicate(timeout=300)
        assert process.returncode == 0
