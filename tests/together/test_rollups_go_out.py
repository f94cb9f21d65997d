"""Sinks and alerts of a rollup: the target's content is the query at its token, and a late event corrects what was raised."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tandem.cli.__main__ import main
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tests.serving.world import World, hit
from tests.together.test_three_levels import THREE

OUT = (
    THREE.replace("import Event,", "import Alert, Event, Sink, delta_table,")
    + """
SINKS = (Sink(days, to=delta_table("lake/days"), name="lake"),)
ALERTS = (Alert(months, when="n > 3", name="busy"),)
"""
)


def run(world: World, capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    assert main([*command, "--project", str(world.folder), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_target_is_the_rollup_at_its_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tmp_path, definitions=OUT)
    for late, cut in ((0, False), (-600, False), (-60 * 24 * 3, True), (15, False)):
        world.append(0, hit("/a", 1, minute=late), hit("/b", 2, minute=late))
        world.trigger()
        if cut:
            world.recompute(world.writer.end)
        run(world, capsys, "sink", "lake", "--once")
        rows = Connection(Store(world.tables, 3)).view("days").scan().to_arrow().drop_columns(["window_state"])
        target = DeltaTable(tmp_path / "lake" / "days").to_pyarrow_table().select(rows.column_names)
        assert sorted(map(str, target.to_pylist())) == sorted(map(str, rows.to_pylist()))
        (sink,) = run(world, capsys, "status")["sinks"]
        assert (sink["view"], sink["lag"]) == ("days", 0)


def test_a_row_of_a_rollup_is_raised_and_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tmp_path, definitions=OUT)
    world.append(0, *(hit("/a", n) for n in range(4)))
    world.trigger()
    run(world, capsys, "alerts", "run", "--once")
    (busy,) = run(world, capsys, "alerts")["alerts"]
    assert [(row["view"], row["now"]["row"]["n"]) for row in busy["raised"]] == [("months", 4)]
    world.log[0][1:3] = [b"{", b"{"]  # a recompute repairs what was counted wrongly
    world.recompute(world.writer.end)
    run(world, capsys, "alerts", "run", "--once")
    found = run(world, capsys, "alerts")
    assert found["alerts"][0]["raised"] == []
    newest = found["recent"][0]
    assert (newest["kind"], newest["because"]) == ("corrected", "recompute")
