"""pyproject.toml alone lists the dependencies: the inputs of the locks are written from it, and every lock meets it."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tandem.infra.folders import ROOT
from tandem.infra.locks import write_inputs

DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
INPUTS = write_inputs.inputs(DOCUMENT)


def locked(name: str) -> dict[str, list[Version]]:
    """The versions of each package of a lock: several where they hang on the Python."""
    pins = re.findall(
        r"^([a-z0-9._-]+)==([^ ;\\]+)", (ROOT / "infra" / "locks" / f"{name}.lock").read_text("utf-8"), re.MULTILINE
    )
    found: dict[str, list[Version]] = {}
    for package, version in pins:
        found.setdefault(package, []).append(Version(version))
    return found


@pytest.mark.parametrize("name", INPUTS)
def test_the_inputs_are_generated_from_pyproject(name: str) -> None:
    written = (ROOT / "infra" / "locks" / f"{name}.in").read_text("utf-8")
    assert written == write_inputs.text(name, INPUTS[name]), "run `python -m tandem.infra.locks.write_inputs`"


@pytest.mark.parametrize("name", INPUTS)
def test_every_lock_meets_the_bounds(name: str) -> None:
    versions = locked(name)
    for requirement in map(Requirement, INPUTS[name]):
        held = versions.get(requirement.name, [])
        assert held, f"infra/locks/{name}.lock lacks {requirement.name}"
        assert all(requirement.specifier.contains(version) for version in held), f"{requirement} and {held}"


def test_the_five_named_packages_are_declared() -> None:
    exact = {line for line in INPUTS["requirements"] if line.startswith(("pyspark", "delta-spark"))}
    assert exact == {"pyspark==4.2.0", "delta-spark==4.4.0"}
    assert DOCUMENT["dependency-groups"]["airflow"] == ["apache-airflow==3.3.2"]
    assert {"kafka-python", "pytest"} <= {Requirement(line).name for line in INPUTS["requirements"]}


def test_every_lock_has_an_input() -> None:
    assert {path.stem for path in (ROOT / "infra" / "locks").glob("*.lock")} - {"jars"} == set(INPUTS)
