"""ARCHITECTURE.md and the pages of docs/design fit the tree: each path that they name exists, and each room is in the map.

A room is a folder of Python modules that is a package.
"""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
DESIGN = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs" / "design").glob("*.md"))}
PACKAGES = ("views", "ledger", "infra", "batch", "speed", "serving", "cli")
TOPS = (*PACKAGES, "dags", "src", "examples", "bench", "tests", "docs")
NO_NAME_OF_A_ROOM = frozenset({"misc", "common", "core", "utils", "util", "base", "helpers", "shared"})

MOST_BYTES = 20 * 1024
"""The size of ARCHITECTURE.md."""

MOST_ENTRIES = 16
"""Entries of a folder that a reader scans at once: modules, rooms and other files, without `__init__.py` and `py.typed`."""

SIBLINGS = {
    "views": "its rooms, and the few modules that all of them import",
    "views/measures": "a file a family of measures",
    "serving/http/routes": "a file a resource",
    "infra/locks": "two files a lock",
    "serving/page/parts": "a file a part of the page",
}
"""Folders that are lists of siblings and may be longer."""


def tracked() -> list[str]:
    """The files of the repository."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is not a Git repository")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def rooms() -> list[str]:
    """The folders that are packages, below the top level."""
    inits = (Path(name) for name in tracked() if name.startswith(tuple(f"{package}/" for package in PACKAGES)))
    return sorted(str(path.parent) for path in inits if path.name == "__init__.py" and len(path.parts) > 2)


def named_paths() -> list[str]:
    """The paths of the tree that the texts name in backticks."""
    texts = "\n".join([TEXT, (ROOT / "docs" / "glossary.md").read_text("utf-8"), *DESIGN.values()])
    words = re.findall(r"`([^`\s]+)`", re.sub(r"^    .*$", "", texts, flags=re.MULTILINE))
    inside = (word for word in words if word.partition("/")[0] in TOPS and "/" in word)
    return sorted({word for word in inside if not re.search(r"[<>:(]|\.\.\.", word)})


def test_each_named_path_exists() -> None:
    found = [path for path in named_paths() if not list(ROOT.glob(path.rstrip("/")))]
    assert found == []
    assert len(named_paths()) > 100  # else the pattern does not read the text any more


def test_a_module_of_the_text_is_named_with_its_ending() -> None:
    assert [path for path in named_paths() if not list(ROOT.glob(path)) or (ROOT / f"{path}.py").exists()] == []


def test_each_room_is_in_the_map() -> None:
    start = TEXT.index("## Rooms")
    rows = re.findall(r"^\| (`.*?) \|", TEXT[start : TEXT.index("\n## ", start + 1)], flags=re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    mapped = {name.removesuffix("*.py").rstrip("/") for name in names}
    assert [room for room in rooms() if room not in mapped] == []
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_each_room_has_a_docstring() -> None:
    """In one to three lines, and more only after an empty one."""
    docstrings = {room: ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text("utf-8"))) for room in rooms()}
    assert [room for room, text in docstrings.items() if text is None] == []
    firsts = {room: (text or "").partition("\n\n")[0] for room, text in docstrings.items()}
    assert [room for room, first in firsts.items() if len(first.splitlines()) > 3] == []


def test_no_folder_has_too_many_entries() -> None:
    entries: dict[str, set[str]] = {}
    for name in tracked():
        if name.startswith(tuple(f"{package}/" for package in PACKAGES)):
            path = Path(name)
            for depth in range(1, len(path.parts)):
                entries.setdefault("/".join(path.parts[:depth]), set()).add(path.parts[depth])
    sizes = {folder: len(names - {"__init__.py", "py.typed"}) for folder, names in entries.items()}
    assert {folder: size for folder, size in sizes.items() if size > MOST_ENTRIES and folder not in SIBLINGS} == {}
    assert [folder for folder in SIBLINGS if folder not in sizes] == []


def test_no_room_and_no_module_has_a_generic_name() -> None:
    inside = [Path(name) for name in tracked() if name.startswith(tuple(f"{package}/" for package in PACKAGES))]
    assert [str(path) for path in inside if {path.stem, *path.parts} & NO_NAME_OF_A_ROOM] == []


def test_the_map_is_short() -> None:
    """A reader who looks for a place reads it whole; what explains a decision is a page of docs/design."""
    assert len(TEXT.encode()) <= MOST_BYTES


def test_each_design_page_is_listed() -> None:
    listed = re.findall(r"^\| \[[\w-]+\]\(([\w-]+\.md)\)", DESIGN["README.md"], flags=re.MULTILINE)
    assert listed == [name for name in DESIGN if name != "README.md"]


def test_one_constructor_creates_tables_from_settings() -> None:
    """A second place that decides where tables are would read others than the commands write."""
    sources = [name for name in tracked() if name.endswith(".py") and name.partition("/")[0] in PACKAGES]
    made = [name for name in sources if re.search(r"\bTables\(", (ROOT / name).read_text("utf-8"))]
    # `bench` asks for tables of folders that it made itself.
    assert [name for name in made if not name.startswith("bench/")] == ["ledger/delta/addresses.py"]


FILES_OF_THEIR_OWN = {
    "ledger/delta/addresses.py": "the root of the tables as an absolute path",
    "ledger/delta/one_writer/write_locks.py": "files whose locks the operating system keeps",
    "ledger/delta/one_writer/become_writer.py": "the process id, the path of a lock",
    "ledger/hot/report.py": "a file of the state folder, the process id",
    "ledger/states_by_key.py": "parts of a file that is being written, a copy to map into memory",
    "ledger/table_versions.py": "the folder of these parts",
    "ledger/log/manifest.py": "an export, a folder of the user's",
    "batch/adopt/adopt.py": "the folder of a table of the user's",
    "batch/adopt/table.py": "a table of the user's",
    "batch/adopt/csv_quotes.py": "files of a table of the user's",
    "batch/points/spine.py": "a file of rows of the user's",
    "batch/runtime/session.py": "the path of a lock",
    "batch/transfer/export_archive.py": "an export",
    "batch/transfer/import_archive.py": "an export",
    "speed/hot/__main__.py": "the project's folder, its standard output, a pipe from the server",
    "speed/hot/process.py": "the project's folder, the process id",
    "speed/source/checkpoints.py": "Spark's checkpoints, tables in which views look up",
    "speed/source/overflow.py": "the same folders",
    "speed/process/speed_layer.py": "Spark's checkpoints, the process id",
    "speed/progress.py": "a file of the state folder",
    "speed/source/follow.py": "Spark's checkpoints",
    "speed/source/query.py": "Spark's checkpoints",
}
"""The modules of ledger, batch and speed that touch files, none of which is a table's."""


def imported(name: str) -> set[str]:
    """The modules that a file imports, by their full names."""
    tree = ast.parse((ROOT / name).read_text("utf-8"))
    froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return froms | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


def test_files_of_tables_are_accessed_only_through_the_port() -> None:
    """What works on a folder alone, such as a rename or a walk, would work nowhere else."""
    sources = [name for name in tracked() if name.endswith(".py") and name.partition("/")[0] in PACKAGES]
    other = {"pyarrow.fs", "pyarrow.dataset", "deltalake.fs"}
    assert [name for name in sources if imported(name) & other] == []
    touching = {"os", "pathlib", "shutil", "mmap", "glob", "tempfile"}
    inner = [name for name in sources if name.partition("/")[0] in ("ledger", "batch", "speed")]
    assert {name for name in inner if imported(name) & touching} == FILES_OF_THEIR_OWN.keys()
