"""Tests replace little of our own code, and never more of it (CONTRIBUTING.md, Tests).

Bounds and waits, which are constants in capitals, may be replaced. The simulation and `one_process` replace the world outside.
"""

import ast
import re
from pathlib import Path

from tandem.infra.folders import ROOT

OURS = frozenset({"tandem", "views", "ledger", "infra", "batch", "speed", "serving", "cli", "bench"})
OUTSIDE = ("tests/simulation/", "tests/one_process.py")
MOST = 110
"""How many functions and classes of ours tests replace by another one. Lower it with them; it never rises."""


def replaced(text: str) -> list[str]:
    """The names of ours, other than constants, that a test file replaces by `setattr` of monkeypatch or `object` of patch."""
    if not re.search(r"\.(setattr|object)\(", text):
        return []
    tree = ast.parse(text)
    ours = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0] in OURS
    }
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("setattr", "object"):
            place, name = (ast.unparse(each) for each in node.args[:2])
            if re.match(r"'[\w.]+'$", place):
                place, name = place.strip("'").rsplit(".", 1)
            if re.match(r"\w+", place) and re.split(r"\W", place)[0] in ours | OURS:
                names.append(name.strip("'"))
    return [name for name in names if not re.fullmatch(r"_*[A-Z0-9_]+", name)]


def test_tests_replace_ever_less_of_our_code() -> None:
    files = [path for path in sorted((ROOT / "tests").rglob("*.py")) if not str(path.relative_to(ROOT)).startswith(OUTSIDE)]
    found = [f"{path.relative_to(ROOT)}: {name}" for path in files for name in replaced(path.read_text("utf-8"))]
    assert len(found) <= MOST, "\n".join(found)


def test_no_test_makes_a_mock() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__) and re.search(r"\b(Magic|Async|NonCallable)?Mock\(|create_autospec", path.read_text("utf-8"))
    ]
    assert found == []


def test_what_is_replaced_is_found() -> None:
    text = (
        "import sys\nfrom tandem.ledger import cut_decision\n"
        "def test(monkeypatch):\n"
        "    monkeypatch.setattr(cut_decision, 'reserve', 1)\n"
        "    monkeypatch.setattr(cut_decision.Cut, 'of', 1)\n"
        "    monkeypatch.setattr('tandem.ledger.cut_decision.bridge', 1)\n"
        "    monkeypatch.setattr(cut_decision, '_PATIENCE_S', 1)\n"
        "    monkeypatch.setattr(sys, 'stdin', 1)\n"
    )
    assert replaced(text) == ["reserve", "of", "bridge"]
