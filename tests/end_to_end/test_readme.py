"""The commands of README and docs/run.md, run in their order, in a folder with nothing else."""

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
PAGES = (README, (ROOT / "docs/run.md").read_text("utf-8"))
COMMANDS = [line.strip() for page in PAGES for line in page.splitlines() if re.match(r"(    )?\./tandem ", line)]
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
    run = once([command for command in COMMANDS if not command.startswith(OTHERS)])
    assert {command.split()[1] for command in run} >= {"init", "try", "up", "feed", "query", "archive", "recompute", "down"}
    said = {}
    for command in run:
        done = typed(command, folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        said[command] = done.stdout
    key = next(command for command in run if "--key city=OSLO" in command)
    assert "OSLO" in said[key]


def test_the_readmes_definition_works(folder: Path) -> None:
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "VIEWS = " in block)
    project = folder / "from_readme"
    project.mkdir()
    (project / "tandem.toml").touch()
    (project / "definitions.py").write_text(code)
    done = typed(f"{ROOT}/tandem check --project {project}", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.path.relpath(project, folder) in done.stdout
