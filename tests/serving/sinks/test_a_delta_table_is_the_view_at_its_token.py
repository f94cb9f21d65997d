"""A Delta sink's rows are the view's rows at its token: after changes, restarts, promotes, rollbacks, lost and foreign tokens."""

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake

from tandem.ledger.delta.errors import Conflict
from tandem.serving.connection import PublishedView
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.sinks import delta
from tandem.serving.sinks.changes_to_send import SinkStep, follow, token_of_target
from tandem.serving.sinks.delta import DeltaTarget, open_at
from tandem.serving.sinks.sink_token import Stamp
from tandem.serving.sinks.target import SinkRefused
from tests.serving.sinks.past import EVERYTHING, MANY, Past, connected, roll_back, wanted_rows
from tests.serving.two_releases import applied, build, edited, promote
from tests.serving.world import World, hit


def sink(world: World, path: Path, wanted: RowsWanted = EVERYTHING, view: str = "per_page") -> list[SinkStep]:
    """Follow once, in a process of its own; then the target is the query."""
    published = connected(world, view)
    target = open_at("s", str(path), world.tables)
    steps = list(follow(published, target, wanted))
    check(published, target, wanted)
    return steps


def check(published: PublishedView, target: DeltaTarget, wanted: RowsWanted) -> None:
    """The table, as any reader opens it, is the query at the table's token."""
    expected = target.convert(wanted_rows(published, wanted))
    content = pa.table(DeltaTable(target.address).to_pyarrow_table()).select(expected.column_names)
    assert sorted(map(str, content.to_pylist())) == sorted(map(str, expected.to_pylist()))
    token = token_of_target(target)
    assert token is not None
    assert list(published.changes(token, where=wanted.where)) == []


def test_rows_follow_any_order_of_what_happens(tmp_path: Path) -> None:
    for seed in range(2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chance, past = random.Random(seed), Past(World(folder))
        world = past.world
        for _ in range(12):
            match chance.choice(("world", "world", "world", "world", "world", "foreign", "lost")):
                case "world":
                    past.happen(chance)
                case "foreign" if (folder / "all").exists():
                    insert_stray_row(folder / "all", twice=chance.random() < 0.5)
                case "lost" if (folder / "all").exists():
                    table = open_at("s", str(folder / "all"), world.tables)
                    table.token()
                    rows = table.content(pa.schema(DeltaTable(table.address).schema()), ["page", "window_start"])
                    assert rows is not None
                    table.replace(rows.slice(0, 1), ["page", "window_start"], Stamp("of another installation", 1))
            if chance.random() < 0.7:
                sink(world, folder / "all")
                sink(world, folder / "many", MANY)
        sink(world, folder / "all")


def insert_stray_row(path: Path, *, twice: bool) -> None:
    """Another program adds a row: a row of nothing, or a row that is there."""
    content = pa.table(DeltaTable(str(path)).to_pyarrow_table())
    row = content.slice(0, 1).to_pylist()[0]
    stray = row if twice else row | {"page": "/stray"}
    write_deltalake(str(path), pa.Table.from_pylist([stray], content.schema), mode="append")


def test_only_what_changed_is_written_and_a_restart_writes_nothing(world: World, tmp_path: Path) -> None:
    (first,) = sink(world, tmp_path / "sink")
    assert (first.rows, first.gone, first.compared) == (2, 0, True)
    world.append(0, hit("/b", 1))
    world.trigger()
    (second,) = sink(world, tmp_path / "sink")
    assert (second.rows, second.gone, second.compared) == (1, 0, False)
    assert DeltaTable(str(tmp_path / "sink")).version() == 1
    assert sink(world, tmp_path / "sink") == []


def test_a_row_that_leaves_the_condition_is_deleted(world: World, tmp_path: Path) -> None:
    few = RowsWanted(where="n < 3")
    sink(world, tmp_path / "sink", few)
    world.append(0, hit("/a", 1))
    world.trigger()
    (step,) = sink(world, tmp_path / "sink", few)
    assert (step.rows, step.gone, step.compared) == (0, 1, False)


def test_a_commit_of_another_program_is_compared(world: World, tmp_path: Path) -> None:
    sink(world, tmp_path / "sink")
    insert_stray_row(tmp_path / "sink", twice=False)
    (step,) = sink(world, tmp_path / "sink")
    assert (step.rows, step.gone, step.compared) == (0, 1, True)


def test_other_rows_of_the_view_are_compared_in_one_step(world: World, tmp_path: Path) -> None:
    sink(world, tmp_path / "sink")
    (step,) = sink(world, tmp_path / "sink", MANY)
    assert (step.rows, step.gone, step.compared) == (0, 1, True)


def test_another_view_replaces_rows_and_columns_in_one_commit(world: World, tmp_path: Path) -> None:
    sink(world, tmp_path / "sink")
    (step,) = sink(world, tmp_path / "sink", view="ever")
    assert step.compared
    assert DeltaTable(str(tmp_path / "sink")).version() == 1


def test_a_promote_is_one_commit_with_its_columns_and_a_rollback_another(world: World, tmp_path: Path) -> None:
    world.recompute(world.end)
    sink(world, tmp_path / "sink")
    ready = applied(world, edited("a measure renamed"))
    build(ready, ready.end)
    promote(ready)
    for publish, version, column in ((None, 1, "m"), (roll_back, 2, "bytes")):
        if publish is not None:
            publish(world)
        (step,) = sink(world, tmp_path / "sink")
        table = DeltaTable(str(tmp_path / "sink"))
        assert (step.compared, table.version()) == (True, version)
        assert column in pa.schema(table.schema()).names


def test_a_table_that_no_sink_has_written_is_refused(world: World, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "sink"), pa.table({"n": [1]}))
    with pytest.raises(SinkRefused, match="has rows that no sink has written"):
        sink(world, tmp_path / "sink")
    assert pa.table(DeltaTable(str(tmp_path / "sink")).to_pyarrow_table()).to_pydict() == {"n": [1]}


def test_of_two_writers_the_second_conflicts_and_compares(world: World, tmp_path: Path) -> None:
    sink(world, tmp_path / "sink")
    world.append(0, hit("/b", 1))
    world.trigger()
    published, target = connected(world, "per_page"), open_at("s", str(tmp_path / "sink"), world.tables)
    assert list(follow(published, target, EVERYTHING))
    other = open_at("s", str(tmp_path / "sink"), world.tables)
    rows = other.content(pa.schema(DeltaTable(other.address).schema()), ["page", "window_start"])
    assert rows is not None
    other.write(rows.slice(0, 0), rows.slice(0, 1).select(["page", "window_start"]), Stamp("another", 1))
    with pytest.raises(Conflict):
        target.write(rows, rows.slice(0, 0).select(["page", "window_start"]), Stamp("stale", 1))
    (step,) = sink(world, tmp_path / "sink")
    assert (step.rows, step.gone, step.compared) == (1, 0, True)


def test_a_compaction_keeps_rows_and_token(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "COMPACT_EVERY", 4)
    for number in range(9):
        world.append(0, hit(f"/{number}", 1))
        world.trigger()
        steps = sink(world, tmp_path / "sink")
        assert [step.compared for step in steps] == [number == 0]
    assert len(DeltaTable(str(tmp_path / "sink")).file_uris()) < 8


def test_a_number_that_delta_lacks_is_refused(world: World, tmp_path: Path) -> None:
    target = open_at("s", str(tmp_path / "sink"), world.tables)
    large = pa.table({"total": pa.array([10**40], pa.decimal256(76, 0))})
    with pytest.raises(SinkRefused, match="38 digits"):
        target.convert(large)
    with pytest.raises(SinkRefused, match=r"Delta has no type for column 'at', time64\[us\]"):
        delta.delta_schema("s", pa.schema([("at", pa.time64("us"))]))


def test_a_reader_with_a_condition_gets_every_row_that_meets_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by values that bounds in the log would round: deltalake 1.6.6 writes those of decimals as floats."""
    monkeypatch.setattr(delta, "COMPACT_EVERY", 2)
    totals = [Decimal(f"{number}2345678901234567890.12") for number in range(1, 4)]
    rows = pa.table({"page": ["a", "b", "c"], "total": pa.array(totals, pa.decimal128(38, 2)), "share": [0.5, float("nan"), 1.5]})
    target = open_at("s", str(tmp_path / "sink"), world.tables)
    target.replace(rows.slice(0, 1), ["page"], Stamp("first", 1))
    for place, name in ((1, "merged"), (2, "compacted")):
        target.write(rows.slice(place, 1), rows.slice(0, 0).select(["page"]), Stamp(name, 1))
        table = DeltaTable(target.address)
        content = table.to_pyarrow_dataset()
        for number, total in enumerate(totals[: place + 1]):
            assert content.to_table(filter=ds.field("total") == total)["page"].to_pylist() == [rows["page"][number].as_py()]
        bounds = [
            name for name in pa.table(table.get_add_actions(flatten=True)).column_names if name.startswith(("min.", "max."))
        ]
        assert bounds == []  # Spark skips a file by its largest float, and NaN is larger
