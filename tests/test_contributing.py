"""CONTRIBUTING.md fits the tree: its blocks, applied to a copy, add a measure, a command and a decoder that work."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tandem.infra.folders import ROOT
from tests.stack import environ

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
COPIED = ("views", "ledger", "infra", "batch", "speed", "serving", "cli", "src", "tests/laws", "tests/views/measures")
ALONE = ("pyproject.toml", "tests/samples.py", "tests/__init__.py")

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """The name and the content of each block that names a file."""
    return ((name, content) for found, name, content in BLOCK.findall(TEXT) if found == language and name)


def added(before: str, difference: str) -> str:
    """The file with the lines that begin with `+`, each group of them after the lines of the block between it and the last."""
    text, anchor, new = before, list[str](), list[str]()
    for line in [*difference.splitlines(), ""]:
        if line.startswith("+"):
            new.append(line[1:])
            continue
        if new:
            old = "\n".join(anchor) + "\n"
            assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
            text = text.replace(old, old + "\n".join(new) + "\n")
            anchor, new = [], []
        anchor.append(line[1:])
    return text


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with all blocks applied."""
    folder = tmp_path_factory.mktemp("contributing") / "tree"
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ALONE:
        if (ROOT / name).exists():
            shutil.copyfile(ROOT / name, folder / name)
    for name, content in blocks("python"):
        path = folder / name
        assert not path.exists(), name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, "utf-8")
    for name, content in blocks("text"):
        (folder / name).write_text(content, "utf-8")
    for name, content in blocks("diff"):
        (folder / name).write_text(added((folder / name).read_text("utf-8"), content), "utf-8")
    (folder / "project" / "tandem.toml").touch()
    return folder


def run(tree: Path, words: Sequence[str]) -> str:
    """What a program of the copy prints."""
    python_path = os.pathsep.join(map(str, (tree / "src", tree)))
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env=environ() | {"PYTHONPATH": python_path, "TANDEM_CACHE": str(tree / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tandem(tree: Path, *words: str) -> Any:
    """The document of a command of the copy, for the project of the text."""
    return json.loads(run(tree, ["-m", "tandem.cli", *words, "--project", "project", "--json"]))


def test_the_text_names_each_command_of_this_test() -> None:
    (shell,) = re.findall(r"^```sh\n(tandem check .*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    named = [line.removesuffix(" --project project") for line in shell.splitlines()]
    assert named == ["tandem check", "tandem check --laws", "tandem topics", "tandem try doors events.txt"]


def test_check_knows_measure_and_decoder_and_the_laws_hold(tree: Path) -> None:
    document = tandem(tree, "check", "--laws")
    assert document["sources"]["openings"]["decoder"] == "logfmt"
    assert list(document["views"]) == ["doors"]
    assert document["laws"] == {"doors": {"cold": None}}


def test_the_command_runs(tree: Path) -> None:
    assert tandem(tree, "topics") == {"topics": {"openings": ["openings"]}}
    assert "List the topics of each source." in run(tree, ["-m", "tandem.cli", "--help"])


def test_a_query_answers_with_both_measures_over_the_new_format(tree: Path) -> None:
    document = tandem(tree, "try", "doors", "events.txt")
    assert [(row["door"], row["opened"], row["flags"], row["cold"]) for row in document["rows"]] == [
        ("north", 2, 5, True),
        ("south", 1, 2, False),
    ]
    assert [reject["reason"] for reject in document["rejects"]] == ["format"]


def test_the_measure_equals_the_oracle_at_every_cut(tree: Path) -> None:
    code = (
        "from datetime import UTC, datetime; from pathlib import Path; from tandem.views.project.project import load\n"
        "from tandem.views.verify.every_cut import checked_answer\n"
        "view = load(Path('project')).views['doors']\n"
        "times = [datetime(2026, 11, 1, 8, n, tzinfo=UTC) for n in range(6)]\n"
        "events = [view.source.event(at=at, door='north', flags=at.minute, celsius=3 - at.minute) for at in times]\n"
        "print([row['flags'] for row in checked_answer(view, events)])"
    )
    assert run(tree, ["-c", code]).strip() == "[7]"
    for name in ("tests/laws/test_measures.py", "views/oracle/measures.py"):
        compile((tree / name).read_text("utf-8"), name, "exec")


def test_the_new_files_are_in_order(tree: Path) -> None:
    new = [name for name, _ in blocks("python") if not name.startswith("project/")]
    assert len(new) == 3
    run(tree, ["-m", "ruff", "check", "--no-cache", *new])
    run(tree, ["-m", "ruff", "format", "--no-cache", "--check", *new])
