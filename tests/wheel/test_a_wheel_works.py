"""What `pip install` of the wheel gives: a whole `tandem` for another user, which writes nothing beside its code."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tandem.infra.folders import EXAMPLES, ROOT
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.project.project import load
from tests.wheel import copy
from tests.wheel.copy import Copy

PATIENCE_S = 300


def read_only(installed: Copy) -> None:
    """The other user cannot write among the packages."""
    code = "import pathlib, sys; pathlib.Path(sys.argv[1], 'written').touch()"
    command = [*installed.user, str(installed.folder / "bin" / "python"), "-c", code, str(installed.site)]
    done = subprocess.run(command, capture_output=True, check=False, cwd="/")
    assert b"PermissionError" in done.stderr


def used(installed: Copy) -> None:
    """A new project, from `init` to `down`."""
    assert installed.run("tandem", "init", "my_shop").splitlines()[1] == "  tandem check --project my_shop"
    document = json.loads(installed.run("tandem", "check", "--project", "my_shop", "--json"))
    assert set(document["views"]) == {"sales", "channels"}
    tried = json.loads(installed.run("tandem", "try", "sales", "my_shop/orders.jsonl", "--project", "my_shop", "--json"))
    installed.run("tandem", "up", "--project", "my_shop")
    try:
        installed.run("tandem", "feed", "my_shop/orders.jsonl", "--source", "orders", "--project", "my_shop")
        deadline = time.monotonic() + PATIENCE_S
        while (rows := queried(installed)) != counted(tried["rows"]):
            assert time.monotonic() < deadline, (rows, counted(tried["rows"]))
        statement = "SELECT sum(orders) AS orders FROM sales"
        answered = json.loads(installed.run("tandem", "sql", statement, "--project", "my_shop", "--json"))
        assert int(answered["rows"][0]["orders"]) == sum(orders for orders, _ in rows.values())
    finally:
        installed.run("tandem", "down", "--project", "my_shop")


def queried(installed: Copy) -> dict[tuple[str, str], tuple[int, str]]:
    return counted(json.loads(installed.run("tandem", "query", "sales", "--project", "my_shop", "--json"))["rows"])


def counted(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, str]]:
    """Orders and revenue by city and hour: how final a row is depends on how far each partition of the log has come."""
    return {(row["city"], row["window_start"]): (row["orders"], row["revenue"]) for row in rows}


def demonstrated(installed: Copy) -> None:
    document = json.loads(installed.run("tandem", "demo", "--once", "--json", seconds=900))
    assert [(check["name"], check["differ"]) for check in document["checks"]] == [("tail", 0), ("batch", 0), ("restart", 0)]
    assert (installed.home / ".local" / "state" / "tandem" / "demo" / "demo").is_dir()


@pytest.mark.slow
@pytest.mark.broker
def test_a_project_from_init_to_down(installed: Copy) -> None:
    read_only(installed)
    before = installed.files()
    used(installed)
    assert installed.files() == before
    assert {path.name for path in installed.home.iterdir()} <= {"my_shop", "typed_shop", "tested_shop"}


@pytest.mark.slow
def test_commands_that_need_the_repository_say_so(installed: Copy) -> None:
    listed = installed.run("tandem", "--help")
    assert "  query " in listed
    for name in ("test", "bench", "package", "docs"):
        assert f"  {name} " not in listed
        answered = json.loads(installed.run("tandem", name, "--json", code=2))
        assert answered["error"].startswith(f"`tandem {name}` needs a checkout of Tandem's repository")


def test_an_example_means_what_it_means_in_the_checkout(installed: Copy) -> None:
    example = str(installed.site / "tandem" / "examples" / "web")
    found = json.loads(installed.run("tandem", "check", "--project", example, "--json"))
    assert Path(found["project"]) == Path(example)
    assert Path(found["settings"]["state"]).is_relative_to(installed.home)
    views = load(EXAMPLES / "web").views
    assert {name: view["fingerprint"] for name, view in found["views"].items()} == {
        name: fingerprint(view) for name, view in views.items()
    }


@pytest.mark.slow
def test_a_new_project_passes_mypy_strict(installed: Copy) -> None:
    installed.run("tandem", "init", "typed_shop")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "/dev/null", "--config-file", ""]
    command += ["--python-executable", str(installed.folder / "bin" / "python"), "."]
    done = subprocess.run(command, cwd=installed.home / "typed_shop", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Success: no issues found in 3 source files\n"), done.stdout + done.stderr


@pytest.mark.slow
def test_pytest_has_the_fixtures_by_the_entry_point_and_by_conftest(installed: Copy) -> None:
    installed.run("tandem", "init", "tested_shop")
    command = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tested_shop")
    assert "4 passed" in installed.run(*command)
    installed.run("python", "-c", "import os; os.remove('tested_shop/conftest.py')")
    assert "4 passed" in installed.run(*command)


@pytest.mark.slow
@pytest.mark.broker
def test_the_demo_is_exact(installed: Copy) -> None:
    before = installed.files()
    demonstrated(installed)
    assert installed.files() == before


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_uv_gives_the_command(open_folder: Path) -> None:
    """`uv tool install .`, as docs/install.md says: packages within the bounds of pyproject.toml, and the command beside them."""
    assert "`uv tool install .`" in (ROOT / "docs/install.md").read_text("utf-8")
    installed = copy.tool_installed(open_folder / "tool")
    (found,) = (installed.folder / "share" / "uv" / "tools").glob("*/lib/python*/site-packages/tandem/cli")
    assert not found.is_relative_to(ROOT)
    installed.run("tandem", "init", "my_shop")
    document = json.loads(installed.run("tandem", "check", "--project", "my_shop", "--json"))
    assert set(document["views"]) == {"sales", "channels"}
    tried = json.loads(installed.run("tandem", "try", "sales", "my_shop/orders.jsonl", "--project", "my_shop", "--json"))
    assert tried["rows"]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(3000)
def test_all_of_it_from_an_empty_home(open_folder: Path) -> None:
    """`pip install .`, as docs/install.md says: packages within the bounds of pyproject.toml, jars fetched at first use."""
    assert "\n      pip install .\n" in (ROOT / "docs/install.md").read_text("utf-8")
    installed = copy.installed(None, open_folder / "whole", cache=None)
    read_only(installed)
    before = installed.files()
    used(installed)
    assert (installed.home / ".cache" / "tandem" / "jars" / "broker").is_dir()
    demonstrated(installed)
    assert installed.files() == before
