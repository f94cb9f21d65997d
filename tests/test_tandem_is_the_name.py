"""`from tandem import ...` is what `from tandem.views import ...` is: the same objects, the same fingerprints."""

import json
import re
import subprocess
import sys

import pytest

import tandem
import tandem.client
import tandem.testing
from tandem import views
from tandem.infra.folders import EXAMPLES, ROOT
from tandem.views.errors import TandemError
from tandem.views.fingerprint.fingerprint import decoder_fingerprint, fingerprint
from tandem.views.project.isolated_import import PLATFORM
from tandem.views.project.project import Project, load, load_files
from tests.stack import PYTHONPATH, environ

# A decoder whose code is part of its fingerprint, with an import inside it.
OWN = b"""
from tandem import Event, Source, View, all_time, count

class Hit(Event):
    path: str

def decode(record: bytes) -> Hit:
    from tandem import Unit
    return Hit(path=f"{record!r}{Unit}")

hits = Source(topic="hits", event=Hit, event_time="_append_time", decoder=decode)
everything = View(source=hits, keys={"path": "path"}, measures={"n": count()}, window=all_time())
SOURCES, VIEWS = (hits,), (everything,)
"""


def meanings(project: Project) -> dict[str, str]:
    decoders = {f"source {name}": decoder_fingerprint(source) for name, source in project.sources.items()}
    return decoders | {name: fingerprint(view) for name, view in project.views.items()}


def renamed(files: dict[str, bytes], old: str, new: str) -> dict[str, bytes]:
    return {path: re.sub(rf"from {old} import".encode(), f"from {new} import".encode(), text) for path, text in files.items()}


def test_tandem_offers_the_names_of_views() -> None:
    offered = tandem.__all__  # type: ignore[attr-defined]  # it is computed
    assert offered == views.__all__
    assert all(getattr(tandem, name) is getattr(views, name) for name in offered)
    for module in (tandem.client, tandem.testing):
        assert all(getattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("example", ["web", "cards", "sensors", "words", "access_log"])
def test_an_example_means_the_same_under_either_name(example: str) -> None:
    project = load(EXAMPLES / example)
    files = dict(project.files)
    assert b"from tandem import" in files["definitions.py"]
    assert meanings(load_files(renamed(files, "tandem", "views"))) == meanings(project)


def test_code_of_the_project_means_the_same_under_either_name() -> None:
    files = {"tandem.toml": b"", "definitions.py": OWN}
    assert meanings(load_files(renamed(files, "views", "tandem"))) == meanings(load_files(files))


@pytest.mark.parametrize("name", sorted(PLATFORM))
@pytest.mark.parametrize("form", ["{}.py", "{}/__init__.py"])
def test_a_module_with_the_name_of_a_package_of_tandem_is_refused(name: str, form: str) -> None:
    path = form.format(name)
    with pytest.raises(TandemError) as refused:
        load_files({"tandem.toml": b"", "definitions.py": b"SOURCES, VIEWS = (), ()", path: b""})
    shown = path.removesuffix("__init__.py")
    rename = f"rename it, and the imports of {name!r} in the project"
    assert str(refused.value) == f"{shown} has the name of a package of Tandem; {rename}"


def test_the_packages_of_tandem_are_those_of_the_wheel() -> None:
    folders = [ROOT, ROOT / "src"]
    found = {path.parent.name for folder in folders for path in folder.glob("*/py.typed")}
    assert found == PLATFORM


def test_check_refuses_such_a_module_by_name(tmp_path) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text("SOURCES, VIEWS = (), ()\n")
    (tmp_path / "batch").mkdir()
    (tmp_path / "batch" / "__init__.py").touch()
    command = [sys.executable, "-m", "tandem.cli", "check", "--project", str(tmp_path), "--json"]
    done = subprocess.run(command, env={**environ(), "PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["error"].split(";")[0]) == (1, "batch/ has the name of a package of Tandem")
