"""A command ends with its exit code whatever threads of libraries still do."""

import subprocess
import sys
from pathlib import Path

from tandem.infra.folders import child_environment
from tests.stack import environ

_COMMAND = """
import atexit, io, sys, threading, time
import pyarrow as pa, pyarrow.parquet as pq
from tandem.cli import __main__ as entry

class Slow(io.BytesIO):
    def read(self, size=-1):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            time.sleep(0.3)
        return super().read(size)

class Late:
    def __del__(self):
        time.sleep(0.6)  # at the end of the interpreter, longer than the read lasts

begun, late = threading.Event(), Late()
pq.write_table(pa.table({"number": [1]}), "numbers.parquet")
numbers = pa.PythonFile(Slow(open("numbers.parquet", "rb").read()), "r")

def command(arguments):
    atexit.register(print, "cleaned up")
    threading.Thread(target=pq.ParquetFile(numbers).read, daemon=True).start()
    begun.wait()
    sys.stdout.write("answered, ")
    {end}

entry.main = command
entry.console()
"""


def _ended(how: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", _COMMAND.replace("{end}", how)]
    return subprocess.run(
        line, env=child_environment(environ()), capture_output=True, text=True, check=False, timeout=300, cwd=folder
    )


def test_its_exit_code_survives_a_thread_in_native_code(tmp_path: Path) -> None:
    done = _ended("return 3", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "answered, cleaned up\n", "")


def test_a_script_that_it_runs_chooses_the_exit_code(tmp_path: Path) -> None:
    done = _ended("time.sleep(1); sys.exit(5)", tmp_path)
    assert (done.returncode, done.stdout) == (5, "answered, cleaned up\n")
