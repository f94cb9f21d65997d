"""`examples/notebook.ipynb` is a clean notebook, names what exists, and its cells run in order on a real broker."""

import ast
import importlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tandem.cli import registry
from tandem.infra.folders import ROOT
from tandem.views.project.python_code import parsed
from tests.stack import PYTHONPATH

NOTEBOOK: dict[str, Any] = json.loads((ROOT / "examples/notebook.ipynb").read_text("utf-8"))
CODE = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def nodes(kind: type[ast.AST]) -> Iterator[Any]:
    return (node for text in CODE for node in ast.walk(parsed(text)) if isinstance(node, kind))


def test_it_is_a_notebook_of_format_4_without_outputs() -> None:
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    cells = NOTEBOOK["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        needed = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            needed |= {"execution_count", "outputs"}
            assert (cell["execution_count"], cell["outputs"]) == (None, [])
        else:
            assert cell["cell_type"] == "markdown"
        assert cell.keys() == needed
        assert cell["source"]
        assert all(line.endswith("\n") for line in cell["source"][:-1])


def test_its_commands_exist() -> None:
    calls = [node for node in nodes(ast.Call) if isinstance(node.func, ast.Name) and node.func.id == "tandem"]
    words = [call.args[0].value for call in calls]
    assert {"init", "up", "feed", "query", "recompute", "plan", "apply", "promote", "down"} <= set(words)
    assert set(words) <= registry.COMMANDS.keys()


def test_the_names_that_it_imports_exist() -> None:
    imports = [node for node in nodes(ast.ImportFrom) if node.module.split(".")[0] == "tandem"]
    assert imports
    for node in imports:
        module = importlib.import_module(node.module)
        assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_its_cells_run_and_the_revenue_is_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = (sys.executable, "-m", "tandem.cli")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TANDEM", shlex.join(launcher))
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, Any] = {}
    try:
        for text in CODE:
            exec(text, names)  # as a notebook runs its cells
    finally:
        if "shop" in names:
            subprocess.run([*launcher, "down", "--project", str(names["shop"])], timeout=120, check=False)
    orders = readable(names["shop"] / "orders.jsonl")
    assert names["revenue"] == sum(Decimal(order["amount"]) for order in orders)
    assert names["revenue"] == sum(names["frame"]["revenue"])
    assert max(names["after"]["largest"]) == max(Decimal(order["amount"]) for order in orders)


def readable(sample: Path) -> list[dict[str, Any]]:
    """Each readable order once."""
    orders = {}
    for line in sample.read_text("utf-8").splitlines():
        try:
            order = json.loads(line)
        except ValueError:
            continue
        if order["channel"] in ("shop", "web"):
            orders.setdefault((order["order_id"], order["at"]), order)
    return list(orders.values())
