"""A release that was applied under one Python is unchanged under another: `plan` ends with 0, either way around.

`.ci/pythons` runs this under every other Python of the machine; the checkout's own packages are the other side.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.serving.world import DEFINITIONS
from tests.stack import PYTHONPATH, environ
from tests.views.golden import EXAMPLES

OWN = str(ROOT / ".venv" / "bin" / "python")
APPLY = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import adoption
from tandem.views.project.project import load

for folder in map(Path, sys.argv[1:]):
    tables = Tables(str(folder / ".tandem" / "tables"))
    adoption.live(tables, lambda: load(folder), by="test", at=datetime(2026, 11, 1, tzinfo=UTC))
"""
PLAN = """
import contextlib, io, json, sys
from tandem.cli.__main__ import main

codes = {}
for folder in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as told:
        code = main(["plan", "--project", folder, "--json"])
    codes[folder.rpartition("/")[2]] = [code, json.loads(told.getvalue())["release"]]
print(json.dumps(codes))
"""


def version(python: str) -> str:
    asked = "import sys; print(sys.version_info[:2])"
    return subprocess.run([python, "-I", "-c", asked], capture_output=True, text=True, check=False).stdout


def printed(python: str, code: str, projects: list[Path]) -> str:
    """What a process of an interpreter prints of these projects."""
    command = [python, "-c", code, *map(str, projects)]
    run = subprocess.run(command, env={**environ(), "PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize("applied_under_own", [True, False])
def test_plan_of_every_example_finds_no_change(tmp_path: Path, *, applied_under_own: bool) -> None:
    if not Path(OWN).exists() or version(OWN) == version(sys.executable):
        pytest.skip("this is the Python of .venv; `.ci/pythons` runs this test under the others")
    projects = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in EXAMPLES]
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "tandem.toml").touch()
    (tmp_path / "world" / "definitions.py").write_text(DEFINITIONS)
    projects.append(tmp_path / "world")
    before, after = (OWN, sys.executable) if applied_under_own else (sys.executable, OWN)
    printed(before, APPLY, projects)
    assert json.loads(printed(after, PLAN, projects)) == {folder.name: [0, 1] for folder in projects}
    # What is a change is one here, too.
    changed = tmp_path / "world" / "definitions.py"
    changed.write_text(DEFINITIONS.replace("bytes > 0", "bytes > 1"))
    assert json.loads(printed(after, PLAN, projects[-1:])) == {"world": [3, 1]}
