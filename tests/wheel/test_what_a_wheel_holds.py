"""The wheel has what the command needs, nothing that only the repository needs, and no file of another package."""

import re
import subprocess
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT

NEEDED = (
    "tandem/infra/locks/jars.lock",
    "tandem/infra/locks/ivy.xml",
    "tandem/infra/locks/airflow.lock",
    "tandem/infra/monitoring/grafana/dashboards",
    "tandem/serving/page/index.html",
    "tandem/cli/project/template/conftest.py",
    "tandem/cli/project/template/definitions.py",
    "tandem/cli/project/template/test_definitions.py",
    "tandem/py.typed",
    "tandem/views/py.typed",
    "tandem/dags/recompute.py",
    "tandem/dags/tandem_dags/command.py",
    "tandem/examples/demo/generator.py",
    "tandem/examples/web/definitions.py",
)


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def test_it_holds_what_the_command_needs_and_no_tests(names: list[str]) -> None:
    assert [path for path in NEEDED if not any(name.startswith(path) for name in names)] == []
    tests = [name for name in names if Path(name).name.startswith("test_") or name.startswith(("tests/", "tandem/bench/"))]
    assert tests == ["tandem/cli/project/template/test_definitions.py"]


def test_every_file_of_the_platform_is_in_it(names: list[str]) -> None:
    """A file that is added to a package of the platform is added to the wheel."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no repository of Git's")
    packages = ("views/", "ledger/", "infra/", "batch/", "speed/", "serving/", "cli/")
    files = {f"tandem/{name}" for name in listed.stdout.splitlines() if name.startswith(packages)}
    files |= {name.removeprefix("src/") for name in listed.stdout.splitlines() if re.match(r"src/.*\.", name)}
    assert sorted(files - set(names)) == []


def test_no_other_package_has_a_file_of_its_name(names: list[str]) -> None:
    records = {one.name: (one.read_text("RECORD") or "").splitlines() for one in distributions() if one.name != "tandem"}
    others = {line.rpartition(",")[0].rpartition(",")[0].strip('"'): name for name, lines in records.items() for line in lines}
    assert "pyspark/__init__.py" in others
    assert {name: others[name] for name in names if name in others} == {}


def test_it_installs_one_name(names: list[str]) -> None:
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"tandem"}
