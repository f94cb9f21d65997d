"""What a docstring says that a function raises exists: `Raises NAME` is a name of its module, of Python, or of our errors."""

import ast
import builtins
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT

FOLDERS = ("views", "ledger", "infra", "batch", "speed", "serving", "cli", "bench", "dags", "src", "examples")
NAME = r"(?:\w+\.)*[A-Z]\w*[a-z]\w*"
RAISES = re.compile(rf"\b[Rr]aises?\s+`?({NAME}(?:`?(?:,\s+|,?\s+or\s+|,?\s+and\s+)`?{NAME})*)")


def modules() -> dict[str, str]:
    """The text of each module of the product, by its path."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is not a Git repository")
    paths = (path for path in listed.stdout.split() if path.startswith(tuple(f"{folder}/" for folder in FOLDERS)))
    return {path: (ROOT / path).read_text("utf-8") for path in paths if (ROOT / path).exists() and "/tests/" not in path}


def named(tree: ast.Module) -> Iterator[str]:
    """The classes that the docstrings of a module say to be raised."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for found in RAISES.findall(ast.get_docstring(node) or ""):
                yield from re.split(r"`?(?:,?\s+or\s+|,?\s+and\s+|,\s+)`?", found)


def bound(tree: ast.Module) -> set[str]:
    """The names that a module imports or defines."""
    nodes = list(ast.walk(tree))
    imports = (alias for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names)
    defined = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    return {(alias.asname or alias.name).partition(".")[0] for alias in imports} | defined


def errors(trees: list[ast.Module]) -> set[str]:
    """The names of the classes that are exceptions, by the names of their bases."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"HTTPException", *(name for name in dir(builtins) if name.endswith(("Error", "Exception")))}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found & bases.keys()


def exists(dotted: str, path: str) -> bool:
    """Whether a name with a dot leads to something, from the names of its module or from a package that is installed."""
    first, *rest = dotted.split(".")
    parts = Path(path).with_suffix("").parts
    module = importlib.import_module(".".join(parts[1:] if parts[0] in ("src", "dags") else ("tandem", *parts)))
    try:
        value = getattr(module, first) if hasattr(module, first) else importlib.import_module(dotted.rpartition(".")[0])
    except ImportError:
        return False
    for name in rest if hasattr(module, first) else rest[-1:]:
        value = getattr(value, name, None)
    return value is not None


def unknown(path: str, tree: ast.Module, ours: set[str]) -> list[str]:
    """The classes that the docstrings of a module name and that do not exist."""
    known = bound(tree) | ours | set(dir(builtins))
    return [name for name in named(tree) if not (exists(name, path) if "." in name else name in known)]


def test_docstrings_name_errors_that_exist() -> None:
    trees = {path: ast.parse(text) for path, text in modules().items()}
    ours = errors(list(trees.values()))
    assert [(path, name) for path, tree in trees.items() for name in unknown(path, tree, ours)] == []
    assert sum(len(list(named(tree))) for tree in trees.values()) > 500


@pytest.mark.parametrize("names", ["Gone", "Conflict or Gone", "Conflict,\nGone", "`Gone` if", "cuts.Gone", "nothing.Gone"])
def test_a_wrong_name_is_found(names: str) -> None:
    text = f'from tandem.ledger import cut_decision\ndef f():\n    """Does it. Raises {names}."""\n'
    assert len(unknown("ledger/cut_decision.py", ast.parse(text), {"Conflict"})) == 1


@pytest.mark.parametrize("names", ["ValueError", "OSError or Conflict.", "BinaryIO", "hypothesis.errors.Unsatisfiable"])
def test_a_right_name_passes(names: str) -> None:
    text = f'from typing import BinaryIO\ndef f():\n    """Does it. Raises {names}."""\n'
    assert unknown("ledger/cut_decision.py", ast.parse(text), {"Conflict"}) == []
