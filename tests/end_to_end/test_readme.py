"""The commands of README, then those of docs/run.md too, run in their order, in a folder with nothing else."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.stack import environ

README = (ROOT / "README.md").read_text("utf-8")
# Lines that a newcomer types: in blocks of shell, or indented. CI itself runs the demo and the tests.
NEXT = (ROOT / "docs/run.md").read_text("utf-8")
OTHERS = ("./tandem demo", "./tandem test", "./tandem bench")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "tandem").symlink_to(ROOT / "tandem")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns(".tandem", "__pycache__"))
    line = '203.0.113.7 - - [01/Nov/2026:10:00:0{} +0000] "GET /a HTTP/1.1" 200 {} "-" "curl"\n'
    (tmp_path / "access.log").write_text("".join(line.format(second, second * 100) for second in range(10)))
    yield tmp_path
    for started in tmp_path.rglob(".tandem/run"):
        typed(f"./tandem down --project {started.parent.parent}", tmp_path)


def commands(page: str) -> list[str]:
    lines = [line.strip() for line in page.splitlines() if re.match(r"(    )?\./tandem ", line)]
    return [line for line in lines if not line.startswith(OTHERS)]


def once(commands: Sequence[str]) -> list[str]:
    """Each command of both pages once: where it comes first, but `down` where it comes last, as the second page goes on."""
    last = {command: place for place, command in enumerate(commands)}
    return sorted(last, key=lambda command: last[command] if " down " in command else commands.index(command))


def typed(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in environ().items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=clean, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.broker
@pytest.mark.timeout(1800)
def test_the_readmes_commands_work(folder: Path) -> None:
    follow(commands(README), {"init", "try", "up", "feed", "query", "recompute", "sql", "plan", "down"}, folder)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(1800)
def test_the_commands_of_the_next_page_work_after_them(folder: Path) -> None:
    both = once(commands(README) + commands(NEXT))
    follow(both, {"archive", "explain", "maintain", "status", "quarantine", "down"}, folder)


def follow(commands: Sequence[str], least: set[str], folder: Path) -> None:
    assert {command.split()[1] for command in commands} >= least
    key = next(command for command in commands if "--key city=OSLO" in command)
    for command in commands:
        done = typed(command, folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if "recompute" in command:  # from then on what was fed is counted for certain
            assert "OSLO" in typed(key, folder).stdout


def test_the_readmes_definition_works(folder: Path) -> None:
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "VIEWS = " in block)
    project = folder / "from_readme"
    project.mkdir()
    (project / "tandem.toml").touch()
    (project / "definitions.py").write_text(code)
    done = typed(f"./tandem check --project {project}", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.path.relpath(project, folder) in done.stdout
