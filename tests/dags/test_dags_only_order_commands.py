"""DAGs import Airflow's SDK and standard operators, their own small package and the standard library, not the platform."""

import ast
import json
import sys
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from tandem.infra.folders import ROOT
from tandem.infra.settings import AirflowSettings
from tandem_dags.configuration import VARIABLE, Configuration, load

DAGS = ROOT / "dags"
FILES = [*DAGS.rglob("*.py"), *(ROOT / "examples" / "airflow").rglob("*.py")]
ALLOWED = ("airflow.sdk", "airflow.providers.standard", "airflow.providers.cncf.kubernetes.operators.pod", "tandem_dags")


def imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_dags_import_nothing_of_the_platform(file: Path) -> None:
    others = {name for name in imported(file) if name.split(".")[0] not in sys.stdlib_module_names}
    assert [name for name in others if not name.startswith(ALLOWED)] == []


def test_parsing_reads_one_small_file(tmp_path: Path) -> None:
    assert load({}) == Configuration()
    file = tmp_path / "tandem.json"
    file.write_text(json.dumps({"project": "/srv/my_shop", "recompute": ""}))
    found = load({VARIABLE: str(file)})
    assert (found.called, found.recompute, found.full) == ("my_shop", "", Configuration().full)
    file.write_text('{"projekt": "x"}')
    with pytest.raises(ValueError, match="unknown key 'projekt'; keys: tandem, project, "):
        load({VARIABLE: str(file)})


def test_defaults_equal_those_of_the_settings() -> None:
    settings = msgspec.structs.asdict(AirflowSettings())
    del settings["port"]
    shared = {field.name: field.default for field in fields(Configuration) if field.name in settings}
    assert shared == settings
