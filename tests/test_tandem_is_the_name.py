"""The package `tandem` is the one name that Tandem takes; a project may use every other."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tandem
import tandem.client
import tandem.testing
from tandem.infra.folders import ROOT
from tandem.views import public
from tandem.views.errors import TandemError
from tandem.views.project.isolated_import import PLATFORM
from tandem.views.project.project import load_files
from tests.stack import PYTHONPATH, environ

VIEWS = """
from batch import NAME
from tandem import Event, Source, View, all_time, count

class Hit(Event):
    path: str

hits = Source(topic=NAME, event=Hit, event_time="_append_time")
everything = View(source=hits, keys={"path": "path"}, measures={"n": count()}, window=all_time())
SOURCES, VIEWS = (hits,), (everything,)
"""


def test_tandem_offers_what_definitions_use() -> None:
    offered = tandem.__all__
    assert offered == sorted(name for name in vars(public) if not name.startswith("_"))
    assert all(getattr(tandem, name) is getattr(public, name) for name in offered)
    for module in (tandem.client, tandem.testing):
        assert all(getattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("name", sorted(PLATFORM))
@pytest.mark.parametrize("form", ["{}.py", "{}/__init__.py"])
def test_a_module_with_the_name_of_a_package_of_tandem_is_refused(name: str, form: str) -> None:
    path = form.format(name)
    with pytest.raises(TandemError) as refused:
        load_files({"tandem.toml": b"", "definitions.py": b"SOURCES, VIEWS = (), ()", path: b""})
    shown = path.removesuffix("__init__.py")
    rename = f"rename it, and the imports of {name!r} in the project"
    assert str(refused.value) == f"{shown} has the name of the package of Tandem; {rename}"


def test_the_packages_of_the_checkout_are_links_below_tandem() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    linked = {path.name: path.resolve() for path in (ROOT / "src" / "tandem").iterdir() if path.is_symlink()}
    assert linked == {name: ROOT / name for name in packages | {"bench"}}


def imported(file: Path) -> set[str]:
    """The top-level names that a module imports."""
    nodes = list(ast.walk(ast.parse(file.read_bytes())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name.split(".")[0] for name in plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}}


def test_no_module_imports_a_package_of_tandem_by_another_name() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    files = [file for folder in (*packages, "src", "tests", "examples", "dags") for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 900
    assert {str(file): found for file in files if (found := imported(file) & packages)} == {}


def test_a_project_may_have_modules_of_the_names_of_those_packages(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "views.py").write_text(VIEWS)
    (tmp_path / "batch.py").write_text("NAME = 'hits'\n")
    (tmp_path / "definitions.py").write_text("from views import SOURCES, VIEWS\n")
    command = [sys.executable, "-m", "tandem.cli", "check", "--project", str(tmp_path), "--json"]
    done = subprocess.run(command, env={**environ(), "PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=False)
    assert (done.returncode, list(json.loads(done.stdout)["views"])) == (0, ["everything"]), done


def test_check_refuses_such_a_module_by_name(tmp_path) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text("SOURCES, VIEWS = (), ()\n")
    (tmp_path / "tandem").mkdir()
    (tmp_path / "tandem" / "__init__.py").touch()
    command = [sys.executable, "-m", "tandem.cli", "check", "--project", str(tmp_path), "--json"]
    done = subprocess.run(command, env={**environ(), "PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["error"].split(";")[0]) == (
        1,
        "tandem/ has the name of the package of Tandem",
    )
