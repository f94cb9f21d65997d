"""The demo of a cluster finds tables and credentials where none may be."""

import subprocess
import sys
from pathlib import Path

import psutil

from tandem.cli.demo import traces

SECRET = "0123456789abcdef0123456789abcdef"


def test_parts_of_tables_are_found(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "speed.log").write_text("nothing")
    assert traces.in_files(tmp_path, [SECRET]) == []
    (tmp_path / "a" / "_delta_log").mkdir(parents=True)
    (tmp_path / "a" / "part-1.parquet").write_bytes(b"PAR1")
    found = traces.in_files(tmp_path, [SECRET])
    assert [line.partition(": ")[0] for line in found] == [
        str(tmp_path / "a" / name) for name in ("_delta_log", "part-1.parquet")
    ]
    assert traces.in_files(tmp_path, [SECRET], tables_in=tmp_path / "a") == []
    (tmp_path / "a" / "part-2.parquet").write_text(SECRET)
    assert len(traces.in_files(tmp_path, [SECRET], tables_in=tmp_path / "a")) == 1


def test_a_credential_is_found_wherever_it_is_in_a_file_and_not_repeated(tmp_path: Path) -> None:
    """Across two pieces that are read one after the other, too."""
    for size in (0, (1 << 20) - 7):
        (tmp_path / "log").write_bytes(b"x" * size + SECRET.encode() + b"y")
        assert traces.in_files(tmp_path, [SECRET]) == [f"{tmp_path / 'log'}: it contains a credential"]


def test_a_credential_in_a_command_line_is_found_and_not_repeated() -> None:
    assert traces.in_command_lines([SECRET]) == []
    child = subprocess.Popen([sys.executable, "-c", "input()", f"--key={SECRET}"], stdin=subprocess.PIPE)
    try:
        while SECRET not in " ".join(psutil.Process(child.pid).cmdline()):  # for a moment after its start it is empty
            assert child.poll() is None
        name = psutil.Process(child.pid).name()
        expected = f"the command line of process {child.pid} ({name}): it contains a credential"
        assert traces.in_command_lines([SECRET]) == [expected]
    finally:
        child.communicate(b"\n")
