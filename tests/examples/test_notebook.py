"""The notebooks of `examples` are clean, name what exists, and their cells run in order on a real broker."""

import ast
import importlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tandem.cli import command_registry
from tandem.infra.folders import ROOT
from tandem.views.project.python_code import parsed
from tests.stack import PYTHONPATH

NOTEBOOKS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "examples").glob("*.ipynb"))
}
COMMANDS = {
    "notebook": {"init", "up", "feed", "query", "recompute", "plan", "apply", "promote", "down"},
    "proof": {"up", "feed", "archive", "recompute", "why", "why-changed", "query", "receipt", "points", "down"},
}


def code(name: str) -> list[str]:
    return ["".join(cell["source"]) for cell in NOTEBOOKS[name]["cells"] if cell["cell_type"] == "code"]


def nodes(name: str, kind: type[ast.AST]) -> Iterator[Any]:
    return (node for text in code(name) for node in ast.walk(parsed(text)) if isinstance(node, kind))


@pytest.mark.parametrize("name", COMMANDS)
def test_it_is_a_notebook_of_format_4_without_outputs(name: str) -> None:
    assert set(NOTEBOOKS) == set(COMMANDS)
    notebook = NOTEBOOKS[name]
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = notebook["cells"]
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


@pytest.mark.parametrize("name", COMMANDS)
def test_its_commands_exist(name: str) -> None:
    calls = [node for node in nodes(name, ast.Call) if isinstance(node.func, ast.Name) and node.func.id == "tandem"]
    words = [call.args[0].value for call in calls]
    assert COMMANDS[name] <= set(words)
    assert set(words) <= command_registry.COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_names_that_it_imports_exist(name: str) -> None:
    imports = [node for node in nodes(name, ast.ImportFrom) if node.module.split(".")[0] == "tandem"]
    assert imports
    for node in imports:
        module = importlib.import_module(node.module)
        assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_its_cells_run_and_the_revenue_is_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run("notebook", tmp_path, monkeypatch)
    orders = readable(names["shop"] / "orders.jsonl")
    assert names["revenue"] == sum(Decimal(order["amount"]) for order in orders)
    assert names["revenue"] == sum(names["frame"]["revenue"])
    assert max(names["after"]["largest"]) == max(Decimal(order["amount"]) for order in orders)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_its_numbers_are_proved_on_public_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run("proof", tmp_path, monkeypatch)
    shown = capsys.readouterr().out
    assert len(names["differing"]) == 0
    difference = names["after"].loc[("JFK", names["hour"])] - names["before"].loc[("JFK", names["hour"])]
    assert difference["flights"] == len(names["rest"].query("at < @third", local_dict={"third": names["third"]}))
    (flights,) = re.findall(r"flights +\d+ +\d+ +(\d+)$", shown, re.MULTILINE)
    assert int(flights) == difference["flights"]
    assert names["receipt"].read_text() in shown, "the check prints the bytes of the receipt"
    of_spine = names["spine"].assign(hour=names["spine"]["scheduled"].dt.floor("h"))
    events = names["flights"].assign(hour=names["flights"]["at"].dt.floor("h"))
    both = of_spine.reset_index().merge(events, on=["origin", "hour"], suffixes=("", "_event"))
    known = both[both["at"] <= both["scheduled"]].groupby("index").size().reindex(of_spine.index)
    assert names["train"]["delays__flights"].fillna(0).to_list() == known.fillna(0).to_list()


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the names of a notebook are after its cells."""
    launcher = (sys.executable, "-m", "tandem.cli")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TANDEM", shlex.join(launcher))
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    names: dict[str, Any] = {}
    try:
        for text in code(name):
            exec(text, names)  # as a notebook runs its cells
    finally:
        if project := names.get("shop") or names.get("project"):
            subprocess.run([*launcher, "down", "--project", str(project)], timeout=300, check=False)
    return names


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
