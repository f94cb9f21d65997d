"""bash, zsh and fish complete commands and options, also those of a checkout's launcher, from the parser of each command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.cli import command_registry
from tandem.cli.__main__ import main
from tests.stack import PYTHONPATH, environ


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """A launcher that is not on the PATH."""
    file = tmp_path / "tandem"
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tandem.cli "$@"\n')
    file.chmod(0o755)
    return file


def completed(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash is answered at the end of these words."""
    monkeypatch.setenv("_TANDEM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert main([]) == 0
    return capsys.readouterr().out.split()


def test_names_options_and_choices_are_completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(completed("tandem ", monkeypatch, capsys)) == set(command_registry.COMMANDS)
    assert completed("tandem qu", monkeypatch, capsys) == ["quarantine", "query"]
    assert completed("tandem query --la", monkeypatch, capsys) == ["--last", "--layer"]
    assert completed("tandem query --layer ", monkeypatch, capsys) == ["batch", "speed", "merged"]
    assert completed("tandem nothing --x", monkeypatch, capsys) == []


def shell(launcher: Path, *command: str) -> list[str]:
    variables = {**environ(), "PYTHONPATH": PYTHONPATH, "HOME": str(launcher.parent)}
    done = subprocess.run(command, cwd=launcher.parent, env=variables, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_a_launcher_that_is_not_on_the_path(launcher: Path) -> None:
    assert shell(launcher, "./tandem", "--install-completion", "bash")[:1] == ["wrote"]
    typed = "COMP_WORDS=(./tandem qu); COMP_CWORD=1; _tandem_completion ./tandem; echo ${COMPREPLY[@]}"
    assert shell(launcher, "bash", "--norc", "-c", f". ~/.bashrc; {typed}") == ["quarantine", "query"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed here")
def test_fish_completes_a_launcher_that_is_not_on_the_path(launcher: Path) -> None:
    shell(launcher, "./tandem", "--install-completion", "fish")
    source = "source ~/.config/fish/completions/tandem.fish"
    assert shell(launcher, "fish", "--no-config", "-c", f"{source}; complete -C './tandem query --laye'")[0] == "--layer"


@pytest.mark.parametrize(("name", "called"), [("zsh", "complete_zsh ${words[1]})"), ("fish", "(commandline -opc)[1])")])
def test_scripts_call_the_program_that_was_typed(name: str, called: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-completion", name]) == 0
    script = capsys.readouterr().out
    assert called in script
    assert " tandem)" not in script


def test_another_shell_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main(["--install-completion"]) == 2
    assert capsys.readouterr().err == ("tandem: cannot complete in 'tcsh'; use `--install-completion SHELL` of bash, zsh, fish\n")


def test_a_name_is_completed_without_importing_its_command() -> None:
    script = (
        "import sys; from tandem.cli.__main__ import main; assert main([]) == 0\n"
        "print([name for name in ('pyspark', 'pyarrow', 'duckdb') if name in sys.modules], file=sys.stderr)"
    )
    variables = {**os.environ, "_TANDEM_COMPLETE": "complete_bash", "COMP_WORDS": "tandem pys", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.stderr) == ("pyspark\n", "[]\n")
