"""The wheel has what the command needs, nothing that only the repository needs, and no file of another package."""

import subprocess
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT

NEEDED = (
    "infra/locks/jars.lock",
    "infra/locks/ivy.xml",
    "infra/locks/airflow.lock",
    "infra/grafana/dashboards",
    "serving/page/index.html",
    "cli/project/template/conftest.py",
    "cli/project/template/definitions.py",
    "cli/project/template/test_definitions.py",
    "tandem/py.typed",
    "views/py.typed",
    "tandem/dags/recompute.py",
    "tandem/dags/tandem_dags/command.py",
    "tandem/examples/web/definitions.py",
)


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def test_it_holds_what_the_command_needs_and_no_tests(names: list[str]) -> None:
    assert [path for path in NEEDED if not any(name.startswith(path) for name in names)] == []
    tests = [name for name in names if Path(name).name.startswith("test_") or name.startswith(("tests/", "bench/"))]
    assert tests == ["cli/project/template/test_definitions.py"]


def test_every_file_of_the_platform_is_in_it(names: list[str]) -> None:
    """A file that is added to a package of the platform is added to the wheel."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no repository of Git's")
    packages = ("views/", "ledger/", "infra/", "batch/", "speed/", "serving/", "cli/")
    files = {name for name in listed.stdout.splitlines() if name.startswith(packages)}
    files |= {name.removeprefix("src/") for name in listed.stdout.splitlines() if name.startswith("src/")}
    assert sorted(files - set(names)) == []


def test_no_other_package_has_a_file_of_its_name(names: list[str]) -> None:
    records = {one.name: (one.read_text("RECORD") or "").splitlines() for one in distributions() if one.name != "tandem"}
    others = {line.rpartition(",")[0].rpartition(",")[0].strip('"'): name for name, lines in records.items() for line in lines}
    assert "pyspark/__init__.py" in others
    assert {name: others[name] for name in names if name in others} == {}
    # A module of that name would be hidden, or hide ours.
    roots = {name.split("/")[0] for name in names}
    tops = {file.split("/")[0].removesuffix(".py"): name for file, name in others.items() if not file.startswith("..")}
    assert {root: tops[root] for root in roots if root in tops} == {}
