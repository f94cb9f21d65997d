"""A Delta sink's rows are the view's rows at its token: after changes, restarts, lost tokens and deletions."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tandem.ledger.delta.errors import Conflict
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.sinks.delta import DeltaTarget
from tandem.serving.sinks.follow import follow, unlabelled
from tests.serving.world import World, hit, position

IDENTITY = ("page", "window_start")


def sunk(world: World, path: Path) -> tuple[DeltaTarget, list[str]]:
    """Follow once, in a new process that stops at the newest snapshot."""
    connection = Connection(Store(world.tables, 1))
    view = connection.view("per_page")
    rows = unlabelled(view.now().scan().to_arrow())
    if not DeltaTable.is_deltatable(str(path)):
        DeltaTable.create(str(path), rows.schema)
    target = DeltaTarget(DeltaTable(str(path)), IDENTITY)
    connection.close()
    follow(view, target, IDENTITY)
    wanted, found = (sorted(map(str, each.to_pylist())) for each in (rows, target.content().select(rows.column_names)))
    assert found == wanted
    assert target.token() is not None
    return target, found


def test_rows_follow_changes_restarts_and_a_recompute(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(4):
        world.append(0, hit("/a", number), hit(None, number), hit(f"/{number}", 1))
        world.trigger()
        sunk(world, tmp_path / "sink")
    world.recompute(position(6))
    sunk(world, tmp_path / "sink")


def test_a_row_that_another_program_added_or_a_lost_token_is_reconciled(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/a", 1), hit(None, 2))
    world.trigger()
    target, _ = sunk(world, tmp_path / "sink")
    stray = target.content().slice(0, 1).to_pylist()[0] | {"page": "/stray"}
    write_deltalake(str(tmp_path / "sink"), pa.Table.from_pylist([stray], target.content().schema), mode="append")
    target.handle.update_incremental()
    target.write(target.content().slice(0, 0), target.content().slice(0, 0).select(IDENTITY), "of another installation")
    sunk(world, tmp_path / "sink")


def test_of_two_writers_the_second_conflicts(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/a", 1))
    world.trigger()
    target, _ = sunk(world, tmp_path / "sink")
    other = DeltaTarget(DeltaTable(str(tmp_path / "sink")), IDENTITY)
    rows, none = target.content(), target.content().slice(0, 0).select(IDENTITY)
    target.write(rows, none, "first")
    with pytest.raises(Conflict):
        other.write(rows, none, "second")
    assert target.token() == "first"
