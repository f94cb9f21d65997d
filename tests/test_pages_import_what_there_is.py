"""What the Python of a page imports from Tandem is there, and so is what a page's text names below `tandem.`."""

import ast
import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pkgutil import resolve_name
from textwrap import dedent

import pytest

from tandem.infra.folders import ROOT
from tests.test_links import tracked, without_blocks

BLOCK = re.compile(r"^( *)```python[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
DOTTED = re.compile(r"`(tandem(?:\.\w+)+)[`(]")
OTHER_VERSIONS = ("CHANGELOG.md", "CONTRIBUTING.md")
"""They name what earlier versions had, and what a contributor adds."""


def imports(code: str) -> Iterator[tuple[str, str]]:
    """The modules of Tandem that code imports from, each with a name."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("tandem", "tandem_dags"):
            yield from ((str(node.module), alias.name) for alias in node.names if alias.name != "*")


def names(text: str) -> Iterator[tuple[str, str]]:
    """The dotted names in a text whose beginning is a module of Tandem: not those of files, metrics and headers."""
    for dotted in DOTTED.findall(without_blocks(text)):
        module, _, name = dotted.rpartition(".")
        if module != "tandem" and find_spec(".".join(dotted.split(".")[:2])) is not None:
            yield module, name


def is_there(module: str, name: str) -> bool:
    """Whether a module has a name: Airflow's packages, which lie in an environment of their own, by their text."""
    if module.startswith("tandem_dags"):
        path = ROOT / "dags" / f"{module.replace('.', '/')}.py"
        return path.is_file() and re.search(rf"^(class |def )?{name}\b", path.read_text("utf-8"), re.MULTILINE) is not None
    try:
        return resolve_name(f"{module}.{name}") is not None
    except (ImportError, AttributeError):
        return False


def test_what_pages_and_notebooks_import_is_there() -> None:
    pages = {name: (ROOT / name).read_text("utf-8") for name in tracked() if name.endswith(".md") and name not in OTHER_VERSIONS}
    blocks = [(page, dedent(code)) for page, text in pages.items() for _, code in BLOCK.findall(text)]
    cells = [
        (name, "".join(cell["source"]))
        for name in tracked()
        if name.endswith(".ipynb")
        for cell in json.loads((ROOT / name).read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code" and not "".join(cell["source"]).startswith(("%", "!"))
    ]
    asked = [(page, *each) for page, code in blocks + cells for each in imports(code)]
    asked += [(page, *each) for page, text in pages.items() for each in names(text)]
    assert [each for each in asked if not is_there(*each[1:])] == []
    assert len(asked) > 100  # else the patterns do not read the pages any more


@pytest.mark.parametrize(
    ("module", "name", "there"),
    [
        ("tandem", "View", True),
        ("tandem", "Viewer", False),
        ("tandem.client", "Refused", True),
        ("tandem.client", "httpx", False),
        ("tandem", "testing", True),
        ("tandem.tested", "answer", False),
        ("tandem_dags.task", "Tandem", True),
        ("tandem_dags.task", "Trandem", False),
        ("tandem_dags.tasks", "Tandem", False),
    ],
)
def test_a_name_is_there_or_not(module: str, name: str, *, there: bool) -> None:
    assert is_there(module, name) == there
