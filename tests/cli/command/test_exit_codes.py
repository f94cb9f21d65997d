"""Commands end with the exit codes of the table: a process for each kind of end."""

import ast
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tandem.cli.__main__ import main
from tandem.cli.command import exit_codes
from tandem.cli.command.call import Output
from tandem.cli.command_registry import COMMANDS
from tandem.infra.folders import ROOT
from tests.stack import PYTHONPATH, environ


def test_every_line_of_the_table_is_of_a_command() -> None:
    assert {*exit_codes.OWN, *exit_codes.FOREIGN} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_names_only_listed_codes(name: str) -> None:
    """Each number that stands in the third argument of an Output, or in what a constant there is."""
    module = import_module(COMMANDS[name].module)
    found = set()
    for call in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8"))):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Output":
            given = [*call.args[2:], *(keyword.value for keyword in call.keywords if keyword.arg == "code")]
            found |= {code for argument in given for code in numbers(argument, module)}
    assert found <= exit_codes.known(name)


def numbers(argument: ast.expr, module: ModuleType) -> set[int]:
    branches = [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument]
    constants = {one.value for one in branches if isinstance(one, ast.Constant) and isinstance(one.value, int)}
    return constants | {getattr(module, one.id) for one in branches if isinstance(one, ast.Name) and hasattr(module, one.id)}


def test_an_unlisted_code_is_an_internal_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("tandem.cli.release.history")
    module.run = lambda _call: Output({}, "", 77)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert main(["history", "--project", "examples/web"]) == exit_codes.FAILED
    assert "exit code 77 of `tandem history` is not listed" in capsys.readouterr().err


def run(*words: str, project: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tandem.cli", *words, "--project", str(project)],
        env={**environ(), "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_processes_end_with_the_codes_of_the_table(tmp_path: Path) -> None:
    web = ROOT / "examples" / "web"
    (tmp_path / "tandem.toml").write_text("[kafka]\nport = 'x'\n")
    ended = {
        exit_codes.DONE: [run("check", project=web)],
        exit_codes.FAILED: [run("check", project=tmp_path), run("check", project=tmp_path / "nowhere")],
        exit_codes.USAGE: [run("check", "--no-such-option", project=web), run("serve", "--port", "x", project=web)],
    }
    for code, popens in ended.items():
        for popen in popens:
            said = popen.communicate(timeout=300)
            assert popen.returncode == code, said


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, exit_codes.INTERRUPTED), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_command_that_a_signal_ends_has_the_code_of_the_signal(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """`down` here waits for a lock that another one holds."""
    (tmp_path / ".tandem" / "run").mkdir(parents=True)
    lock = tmp_path / ".tandem" / "run" / "lock"
    with subprocess.Popen(["flock", "--no-fork", str(lock), "sleep", "600"]) as holder:
        try:
            popen = run("down", "--json", project=tmp_path)
            deadline = time.monotonic() + 300
            while f"{popen.pid}" not in waiting(lock):
                assert time.monotonic() < deadline
                assert popen.poll() is None
            popen.send_signal(number)
            said = popen.communicate(timeout=300)
        finally:
            holder.kill()
    assert popen.returncode == code, said
    if number == signal.SIGINT:
        assert said == (b'{"error": "interrupted", "code": "interrupted"}\n', b"tandem: interrupted\n")


def waiting(lock: Path) -> list[str]:
    """The pids that hold a file's lock or wait for it."""
    if not lock.exists():
        return []
    number = str(lock.stat().st_ino)
    return [word for line in Path("/proc/locks").read_text().splitlines() if f":{number} " in line for word in line.split()]
