"""Two checkouts of one commit give the same wheel and the same bill of materials."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.stack import environ

pytestmark = pytest.mark.slow


def release(checkout: Path, out: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tandem.cli", "package", "--release", "--out", str(out)],
        cwd=checkout,
        env={**environ(), "PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return (out / "SHA256SUMS").read_text("utf-8").splitlines()


def test_two_checkouts_give_the_same_bytes_and_every_pinned_package(tmp_path: Path) -> None:
    for name in ("one", "other"):
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tmp_path / name)], check=True)
    one, other = (release(tmp_path / name, tmp_path / name / "dist") for name in ("one", "other"))
    assert len(one) == 2
    assert one == other
    (bill,) = (tmp_path / "one" / "dist").glob("*.cdx.json")
    listed = {part["purl"]: part for part in json.loads(bill.read_text("utf-8"))["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    jars = (ROOT / "infra" / "locks" / "jars.lock").read_text("utf-8").splitlines()
    assert sum(purl.startswith("pkg:maven/") for purl in listed) == len(jars)
    pinned = {purl.split("/")[-1].split("@")[0] for purl in listed if purl.startswith("pkg:pypi/")}
    direct = {line.split("=")[0].split(">")[0].split("[")[0].strip() for line in project["dependencies"]}
    assert direct <= pinned
    assert "apache-airflow" in pinned
    assert not pinned & {"pytest", "hypothesis", "moto"}
    assert all(part["hashes"] for part in listed.values())
