"""An unreadable answer is *failed*, with the reason; without events it is *absent*; neither is mistaken for the other."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.realtime.commit_files import SCHEMA, to_rows
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime_writer import Writer
from tandem.serving.read.merged_layers import Reader, UnknownView
from tandem.serving.read.outcome import Absent, Failed, ReadFailed, Value, given
from tandem.serving.read.selection import BadSelection
from tests.serving.world import NOON, SOURCE, World, hit, nine_hits, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    return nine_hits(tmp_path)


def reason(world: World, view: str = "per_page") -> str:
    answer = Reader(world.tables).answer(view)
    assert isinstance(answer, Failed)
    assert "\n" not in answer.reason
    return answer.reason


def handle_and_paths(world: World) -> tuple[DeltaTable, dict[int, str]]:
    """The realtime table, and its files by where their commits start."""
    handle = delta_tables.open_table(world.tables, world.tables.realtime(1, SOURCE))
    assert handle is not None
    paths = {}
    for path in delta_tables.files(handle):
        row = delta_tables.read_file(handle, path).to_pylist()[0]
        if row["kind"] == "fold":
            paths[json.loads(row["start_position"]).get("T", {}).get("0", 0)] = path
    return handle, paths


def test_before_the_first_publication_an_answer_fails_with_the_fix(tmp_path: Path) -> None:
    answer = Reader(Tables(str(tmp_path))).answer("per_page")
    assert isinstance(answer, Failed)
    assert answer.reason.startswith("nothing is published yet")
    with pytest.raises(ReadFailed, match="nothing is published yet"):
        given(answer)


def test_a_view_without_events_is_absent(tmp_path: Path) -> None:
    answer = Reader(World(tmp_path).tables).answer("per_page")
    assert isinstance(answer, Absent)
    assert answer.rows() == []
    assert answer.provenance.newest is None


def test_a_key_that_no_event_has_is_absent(world: World) -> None:
    reader = Reader(world.tables)
    assert isinstance(reader.answer("per_page", keys={"page": "/nowhere"}), Absent)
    assert isinstance(reader.answer("per_page", keys={"page": "/"}), Value)


def test_an_invalid_question_raises(world: World) -> None:
    reader = Reader(world.tables)
    with pytest.raises(UnknownView, match="no view 'per_pag' is published; views: per_page, ever, inverse"):
        reader.answer("per_pag")
    with pytest.raises(BadSelection, match="no key 'pge'"):
        reader.answer("per_page", keys={"pge": "/"})


def test_an_overlap_of_commits_fails(world: World) -> None:
    handle, _ = handle_and_paths(world)
    again = world.fold(position(3), position(9))
    delta_tables.conditional_append(
        handle, to_rows(Commit(position(3), position(9), 1, "fold", at=NOON, by="test", **vars(again)))
    )
    assert "overlap" in reason(world)


def test_a_commit_across_the_cut_fails(world: World) -> None:
    world.recompute(position(3))
    handle, paths = handle_and_paths(world)
    both = world.fold(position(0), position(6))
    commit = Commit(position(0), position(6), 1, "fold", at=NOON, by="test", **vars(both))
    delta_tables.conditional_replace(handle, [paths[0], paths[3]], [to_rows(commit)], at=NOON)
    assert "straddles the cut {T/0: 3}" in reason(world)


def test_only_the_source_that_cannot_be_tiled_fails(world: World) -> None:
    reader = Reader(world.tables)
    handle, paths = handle_and_paths(world)
    delta_tables.conditional_replace(handle, [paths[3]], [], at=NOON)
    reader.refresh()
    assert reader.snapshot().tails[SOURCE].problem is not None
    assert reader.snapshot().positions == {}


def tamper(world: World, column: str, value: object) -> None:
    """Put a commit with one column changed in place of the last."""
    handle, paths = handle_and_paths(world)
    rows = delta_tables.read_file(handle, paths[6])
    at = SCHEMA.names.index(column)
    changed = rows.set_column(at, SCHEMA.field(at), pa.array([value] * len(rows), SCHEMA.field(at).type))
    delta_tables.conditional_replace(handle, [paths[6]], [changed], at=NOON)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("end_position", '{"T": {"0": -1}}', "-1"),
        ("partial", b"not arrow", "cannot read table"),
        ("fingerprint", "another", "cannot read table"),
    ],
)
def test_a_damaged_commit_fails(world: World, column: str, value: object, says: str) -> None:
    tamper(world, column, value)
    assert says in reason(world)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"PAR1 no more")])
def test_a_batch_version_whose_files_are_lost_fails(world: World, damage: Callable[[Path], object]) -> None:
    world.recompute(position(6))
    table = Path(world.tables.view("per_page", world.live.views["per_page"].fingerprint))
    for file in table.glob("batch_version=1/*.parquet"):
        damage(file)
    assert f"cannot read table {table}" in reason(world)
    assert isinstance(Reader(world.tables).answer("per_page", layer="speed"), Value)
    assert isinstance(Reader(world.tables).answer("ever"), Value)


def test_a_batch_version_whose_log_entry_is_lost_fails(world: World) -> None:
    """As after a power cut: to Delta the table is then simply older."""
    world.recompute(position(6), files=2)
    table = Path(world.tables.view("inverse", world.live.views["inverse"].fingerprint))
    max(table.glob("_delta_log/*.json")).unlink()
    assert "rows of batch version 1" in reason(world, "inverse")


def test_a_missing_realtime_table_fails(world: World) -> None:
    world.recompute(position(6))
    shutil.rmtree(world.tables.realtime(1, SOURCE))
    assert "no commit starts or ends at the cut" in reason(world)


def test_a_publication_that_cannot_be_read_fails_until_it_can(world: World) -> None:
    reader = Reader(world.tables)
    assert isinstance(reader.answer("per_page"), Value)
    log = max(Path(world.tables.control("publications"), "_delta_log").glob("*.json"))
    content = log.read_bytes()
    log.write_bytes(b"no log")
    assert isinstance(reader.refresh(), Failed)
    assert isinstance(reader.answer("per_page"), Failed)
    log.write_bytes(content)
    reader.refresh()
    assert isinstance(reader.answer("per_page"), Value)


@pytest.mark.parametrize("promoted", [False, True])
def test_a_state_folder_that_was_replaced_fails_instead_of_stepping_back(world: World, tmp_path: Path, *, promoted: bool) -> None:
    """Also by one from before a promotion, whose live release is another one than that of earlier answers."""
    if promoted:
        old = Releases(world.tables).load(1)
        files = {**old.files, "tandem.toml": b"# changed"}
        release = Releases(world.tables).store(files, sources=old.sources, views=old.views, by="test", at=NOON).number
        world.writer = Writer.claim(world.tables, release, SOURCE, by="test", at=NOON)
        world.trigger()
        assert Publications(world.tables).publish(lambda live: live and replace(live, kind="promote", release=release))
    reader = Reader(world.tables)
    reader.refresh()
    state = world.state
    state.rename(tmp_path / "old")
    fresh = World(tmp_path)
    fresh.append(0, hit("/", 1))
    fresh.trigger()
    assert isinstance(reader.refresh(), Failed)  # delta-rs may notice first
    found = reader.refresh()
    assert isinstance(found, Failed)
    assert "are older than earlier answers" in found.reason
    assert isinstance(Reader(fresh.tables).answer("per_page"), Value)
    assert isinstance(world.writer, Writer)
