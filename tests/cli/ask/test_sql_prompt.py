"""`tandem sql`: formats and errors of a statement, and a prompt that answers, completes and continues."""

import io
import json
import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tandem.cli.__main__ import main
from tandem.cli.ask.sql_prompt import converse, terminal, words
from tandem.serving.memory.store import Store
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.merged_views import MergedViews
from tandem.serving.sql.sandbox import Sandbox
from tests.serving.world import World, forty_hits, hit


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return forty_hits(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(StatementLimits(seconds=60)) as made:
        yield made


def told(world: World, sandbox: Sandbox, capsys: pytest.CaptureFixture[str], *lines: str) -> str:
    """What the prompt says to these lines."""
    views = MergedViews(Store(world.tables, 1))
    with create_pipe_input() as keys:
        keys.send_text("".join(f"{line}\r" for line in lines))
        keys.send_text("\x04")
        read = terminal(views, world.state, input_=keys, output=DummyOutput())
        converse(read, sandbox, views, "csv")
    return capsys.readouterr().out


def test_a_statement_has_three_formats(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    statement = "SELECT page, n, price, [n] AS list, NULL AS nothing FROM per_page WHERE page = '/later'"
    project = ["--project", str(world.folder)]
    assert main(["sql", statement, "--format", "csv", *project]) == 0
    assert capsys.readouterr().out == "page,n,price,list,nothing\n/later,10,1.00,[10],\n"
    assert main(["sql", statement, *project]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "page     n  price  list  nothing",
        "/later  10  1.00   [10]     NULL",
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO(statement))
    assert main(["sql", "--json", *project]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == [{"page": "/later", "n": 10, "price": "1.00", "list": [10], "nothing": None}]
    assert (found["_provenance"]["publication"], found["_provenance"]["exactness"]["label"]) == (2, "exact")


def test_tables_are_shown_and_described(world: World, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    project = ["--project", str(world.folder)]
    assert main(["sql", "show tables;", "--json", *project]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns"] == ["name", "source", "keys", "window"]
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == list(world.project.views)
    assert rows["per_page"]["keys"] == "page"
    assert main(["sql", "DESCRIBE per_page", "--format", "csv", *project]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("page,VARCHAR")
    assert "per_page,hits,page," in told(world, sandbox, capsys, "SHOW TABLES;")


@pytest.mark.each_run("SELEC", "DROP*")
@pytest.mark.parametrize("statement", ["FROM nowhere", "SELEC", "DROP TABLE ever", "SELECT 1; SELECT 2", ""])
def test_a_refused_statement_is_one_sentence(world: World, capsys: pytest.CaptureFixture[str], statement: str) -> None:
    assert main(["sql", statement, "--project", str(world.folder)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), err.startswith("tandem: ")) == ("", 1, True)


def test_the_prompt_continues_after_an_error(world: World, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["FROM nowhere;", ".format xml", ".nope"]
    right = ["SELECT n", "FROM ever;", ".views ever", ".format json", "SELECT 7 AS seven;", ".help"]
    said = told(world, sandbox, capsys, *wrong, *right)
    assert "n\n39\n" in said
    assert "no view 'nowhere'; views: " in said
    assert "ever(window_start timestamp[us, tz=UTC], window_end timestamp[us, tz=UTC], window_state string, n int64" in said
    assert '"rows": [{"seven": 7}]' in said
    assert "unknown format 'xml'; formats: table, json, csv, ndjson" in said
    assert "unknown command '.nope'; commands: .help, .views, .format, .quit" in said
    assert "hll_union(state): an aggregate" in said


def test_the_prompt_ends_at_quit(world: World, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(world, sandbox, capsys, ".quit", "SELECT 1;") == ""


def test_each_statement_sees_the_newest_snapshot(tmp_path: Path, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    world = forty_hits(tmp_path)
    views = MergedViews(Store(world.tables, 1))
    statements = iter(["SELECT n FROM ever", "SELECT n FROM ever"])

    def read() -> str:
        statement = next(statements, None)
        if statement is None:
            raise EOFError
        world.append(1, hit("/new", 5))
        world.trigger()
        return statement

    converse(read, sandbox, views, "csv")
    assert capsys.readouterr().out.splitlines() == ["n", "40", "n", "41"]


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_statement_and_not_the_prompt(world: World, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    views = MergedViews(Store(world.tables, 1))
    statements: Iterator[Any] = iter(["SELECT count(*) FROM range(1000000000000)", KeyboardInterrupt(), "SELECT 8 AS eight"])

    def read() -> str:
        statement = next(statements, None)
        if statement is None:
            raise EOFError
        if isinstance(statement, KeyboardInterrupt):
            raise statement
        if "range" in statement:
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        return statement

    converse(read, sandbox, views, "csv")
    said = capsys.readouterr().out
    assert said.splitlines() == ["ended", "eight", "8"]


def test_only_its_owner_can_read_the_history(world: World, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    told(world, sandbox, capsys, "SELECT 'remembered';")
    history = world.state / "sql_history"
    assert "SELECT 'remembered';" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_views_columns_functions_and_words_are_completed(world: World) -> None:
    completer = words(MergedViews(Store(world.tables, 1)))

    def completed(text: str) -> set[str]:
        return {one.text for one in completer.get_completions(Document(text), None)}

    assert completed("SELECT * FROM per_") == {"per_page"}
    assert completed("SELECT wind") == {"window_start", "window_end", "window_state"}
    assert completed("SELECT hll_") == {"hll_estimate", "hll_union"}
    assert completed("sel") == {"SELECT"}
    assert completed(".f") == {".format"}
