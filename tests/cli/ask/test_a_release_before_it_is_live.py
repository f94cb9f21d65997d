"""`query`, `sql` and `watch` with `--release`, and a connection to a release: as if it were promoted now."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.serving import connect
from tests.serving.two_releases import applied, build, edited
from tests.serving.world import World, forty_hits, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Release 1 is live; of release 2, which is ready, `ever` counts only hits of more than 3 bytes."""
    live = forty_hits(tmp_path)
    ready = applied(live, edited("another filter"))
    ready.trigger()
    build(ready, position(31))
    return live


def run(world: World, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    code = main([*arguments, "--project", str(world.folder), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def test_query_answers_of_both_layers(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for options, live, n in (([], True, 39), (["--release", "2"], False, 33), (["--release", "1"], True, 39)):
        code, found, _ = run(world, capsys, "query", "ever", *options)
        assert code == 0
        assert [row["n"] for row in found["rows"]] == [n]
        assert found["provenance"]["live"] is live
    assert main(["query", "ever", "--release", "2", "--project", str(world.folder)]) == 0
    out, err = capsys.readouterr()
    assert "release 2 as if it were promoted now (live is publication 2): batch version 2001 and 10 offsets" in out
    assert "definitions differ from those of release 2 (changed views: ever)" in err


def test_sql_and_a_connection_answer_the_same(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = run(world, capsys, "sql", "SELECT n FROM ever", "--release", "2")
    assert (code, found["rows"]) == (0, [{"n": 33}])
    assert found["_provenance"]["views"]["ever"]["live"] is False
    with connect(world.folder, every_s=None, release=2) as connection:
        row = connection.view("ever").get()
        assert row is not None
        assert row["n"] == 33


@pytest.mark.parametrize("command", [("query", "ever"), ("sql", "SELECT 1"), ("watch", "ever")])
def test_a_release_that_cannot_be_asked_is_refused(
    world: World, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert main([*command, "--release", "7", "--project", str(world.folder)]) == 1
    assert capsys.readouterr().err.strip() == "tandem: release 7 was neither live nor applied; ready: 2"
    applied(world, edited("another key"))
    assert main([*command, "--release", "3", "--project", str(world.folder)]) == 1
    assert capsys.readouterr().err.strip() == "tandem: release 3 is being built; ready: 2"


def test_a_release_has_no_past(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "ever", "--release", "2", "--publication", "1", "--project", str(world.folder)]) == 1
    assert "--release cannot be combined with --publication or --as-of" in capsys.readouterr().err
