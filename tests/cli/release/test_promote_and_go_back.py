"""`promote`, `rollback`, `resume`, `retire`, `history` and `status` say what is live, what stands ready, and what cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.cli.release import history
from tandem.ledger.realtime_writer import Writer
from tests.serving.world import CHANGED, NOON, SOURCE, World, one_ready, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    return one_ready(tmp_path)


def run(world: World, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    """The exit code, the document if there is one, and what a person is told."""
    code = main([*arguments, "--project", str(world.folder), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


def counted(world: World, capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """How many hits are answered, and by which publication."""
    _, found, _ = run(world, capsys, "query", "per_page")
    return sum(row["n"] for row in found["rows"]), found["provenance"]["publication"]


def test_a_release_is_promoted_only_once_it_has_caught_up(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(world, capsys, "promote", "--max-lag", "9")
    assert code == 1
    assert f"the realtime views of release 2 are 10 offsets of source '{SOURCE}' behind the live ones, more than 9" in err
    assert run(world, capsys, "status")[1]["standing"] == [{"release": 2, "stage": "ready", "why": None, "lag": {SOURCE: 10}}]
    assert counted(world, capsys) == (30, 2)
    world.writer = Writer.claim(world.tables, 2, SOURCE, by="test", at=NOON)
    world.trigger(position(30))
    gates = {
        gate: run(world, capsys, "promote", "--check", *(["--gate", gate] if gate else []))[:2]
        for gate in ("", "changed_keys <= 20%", "changed_keys < 20%")
    }
    opened = (0, {"release": 2, "open": True, "why": None, "views": {"per_page": CHANGED, "ever": {"status": "unchanged"}}})
    assert (gates[""], gates["changed_keys <= 20%"]) == (opened, opened)
    code, found = gates["changed_keys < 20%"]
    assert (code, found["release"], found["open"]) == (3, 2, False)
    assert found["why"].startswith("the gate is closed: ")
    assert counted(world, capsys) == (30, 2)
    code, found, _ = run(world, capsys, "promote", "--max-lag", "0", "--gate", "changed_keys <= 20%", "--why", "fewer bots")
    views = {"per_page": CHANGED, "ever": {"status": "unchanged"}}
    assert (code, found) == (0, {"publication": 3, "release": 2, "kind": "promote", "views": views})
    assert counted(world, capsys) == (30, 3)
    assert run(world, capsys, "status")[1]["standing"] == [{"release": 1, "stage": "was live", "why": None, "lag": {SOURCE: 0}}]

    newest = run(world, capsys, "history", "--limit", "1")[1]["publications"]
    assert [(one["publication"], one["why"], one["revision"], one["kind"]) for one in newest] == [
        (3, "fewer bots", "abc", "promote")
    ]
    assert newest[0]["diff"]["per_page"] == {"status": "changed", "matched": 10, "changed": 2, "only_old": 0, "only_new": 0}
    assert main(["history", "--project", str(world.folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["3", "promote"], ["2", "recompute"], ["1", "initial"]]
    assert lines[1].endswith("fewer bots; per_page: 2 of 10 rows")


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ((10, 2, 0, 0), "2 of 10 rows"),
        ((1, 0, 3, 2), "0 of 1 row, 3 gone, 2 new"),
        ((0, 0, 4, 7), "4 gone, 7 new"),
        ((0, 0, 0, 7), "7 new"),
        ((0, 0, 0, 0), "no rows yet"),
    ],
)
def test_history_counts_only_existing_rows(figures: tuple[int, ...], told: str) -> None:
    """Never of 0 rows: with other keys or windows no row is on both sides."""
    view = dict(zip(("matched", "changed", "only_old", "only_new"), figures, strict=True))
    assert history._changed(view) == told


def test_a_closed_gate_publishes_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(world, capsys, "promote", "--gate", "max_error < 5%")
    assert code == 1
    assert "the gate is closed: view 'per_page' has max_error 10.0000%, but the gate requires max_error < 5.0000%" in err
    code, _, err = run(world, capsys, "promote", "--gate", "max_errors < 5%")
    assert code == 1
    assert "unknown figure 'max_errors'; figures: max_error" in err
    assert counted(world, capsys) == (30, 2)


def test_rollback_resume_and_retire_work(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.writer = Writer.claim(world.tables, 2, SOURCE, by="test", at=NOON)
    world.trigger(position(30))
    assert run(world, capsys, "promote", "2")[0] == 0
    assert run(world, capsys, "rollback", "--why", "wrong")[1] == {
        "publication": 4,
        "release": 1,
        "kind": "rollback",
        "undoes": [{"publication": 3, "release": 2, "kind": "promote"}],
    }
    assert counted(world, capsys) == (30, 4)
    code, _, err = run(world, capsys, "rollback")
    assert (code, "is a rollback; name the publication to roll back to" in err) == (1, True)
    assert run(world, capsys, "resume")[1] == {"publication": 5, "release": 1, "kind": "resume"}
    code, _, err = run(world, capsys, "resume")
    assert (code, "publishing is not paused" in err) == (1, True)
    code, _, err = run(world, capsys, "retire", "1")
    assert (code, "release 1 is live" in err) == (1, True)
    code, _, err = run(world, capsys, "rollback", "2", "--release", "2")
    assert (code, "name a publication or a release to roll back to, not both" in err) == (1, True)
    assert main(["rollback", "--release", "2", "--project", str(world.folder)]) == 0
    assert (
        "release 2 is live again, which undoes publication 4 (rollback, release 1) and 1 later publication;"
        in capsys.readouterr().out
    )
    assert run(world, capsys, "rollback", "--release", "1")[0] == 0
    assert run(world, capsys, "retire", "2", "--why", "no use")[1] == {"release": 2, "stage": "retired"}
    code, _, err = run(world, capsys, "promote", "2")
    assert (code, "release 2 is retired (no use); ready: none" in err) == (1, True)
    assert run(world, capsys, "status")[1]["standing"] == []


def test_before_the_first_publication_commands_fail_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    for command, told in (("rollback", "nothing is published yet"), ("promote", "no release is ready"), ("resume", "not paused")):
        assert main([command, "--project", str(tmp_path)]) == 1
        assert told in capsys.readouterr().err
    assert main(["history", "--project", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing is published yet\n"
