"""The package `tandem` is the one name that Tandem takes; a project may use every other."""

import ast
import json
import re
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
from tests.test_links import tracked

VIEWS = """
from batch import NAME
from tandem import Event, Source, View, all_time, count

class Hit(Event):
    path: str

hits = Source(topic=NAME, event=Hit, event_time="_append_time")
everything = View(source=hits, keys={"path": "path"}, measures={"n": count()}, window=all_time())
SOURCES, VIEWS = (hits,), (everything,)
"""


NAMES_OF_SQL = {"avg", "max", "min", "sum"}


def test_tandem_offers_what_definitions_use() -> None:
    offered, names = tandem.__all__, sorted(name for name in vars(public) if not name.startswith("_"))
    assert sorted({*offered, *NAMES_OF_SQL}) == names
    assert not NAMES_OF_SQL & {*offered}, "`import *` leaves Python's own alone"
    assert all(getattr(tandem, name) is getattr(public, name) for name in names)
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


def imported(text: str, packages: set[str]) -> set[str]:
    """Which of these packages a module imports as top-level ones."""
    if not re.search(rf"^\s*(?:from|import) (?:{'|'.join(packages)})\b", text, re.MULTILINE):
        return set()  # most: reading the text costs a tenth of parsing it
    nodes = list(ast.walk(ast.parse(text)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    plain |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in plain} & packages


def test_no_module_imports_a_package_of_tandem_by_another_name() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    files = [name for name in tracked() if name.endswith(".py")]
    assert len(files) > 900
    assert {name: found for name in files if (found := imported((ROOT / name).read_text("utf-8"), packages))} == {}
    assert imported("import json\n\ndef f():\n    from views import kernel\n", packages) == {"views"}


def check(project: Path) -> tuple[int, dict]:
    """The exit code and the document of `tandem check`."""
    command = [sys.executable, "-m", "tandem.cli", "check", "--project", str(project), "--json"]
    done = subprocess.run(command, env={**environ(), "PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def test_a_project_may_have_modules_of_the_names_of_those_packages(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "views.py").write_text(VIEWS)
    (tmp_path / "batch.py").write_text("NAME = 'hits'\n")
    (tmp_path / "definitions.py").write_text("from views import SOURCES, VIEWS\n")
    code, document = check(tmp_path)
    assert (code, list(document["views"])) == (0, ["everything"])
    (tmp_path / "tandem").mkdir()
    (tmp_path / "tandem" / "__init__.py").touch()
    code, document = check(tmp_path)
    assert (code, document["error"].split(";")[0]) == (1, "tandem/ has the name of the package of Tandem")
