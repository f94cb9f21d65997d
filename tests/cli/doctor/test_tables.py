"""Tables that do not open, are not plain, or have lost files, each with a fix; fixes that can be tested here work."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tandem.cli.__main__ import main
from tandem.cli.doctor import tables as looks
from tandem.ledger.delta import delta_tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.batch_parts import BatchPart
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.realtime_writer import Writer
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tests.cli.doctor.looked import fine, wrong
from tests.serving.world import NOON, SOURCE, World, hit, position


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Nine events that count and a tenth, of which five were published, then eight; all are archived and decoded."""
    world = World(tmp_path_factory.mktemp("whole"))
    world.append(0, *(hit(f"/{n}", n) for n in range(10)), b"{broken")
    for end in (5, 8, 11):
        world.trigger(position(end))
    world.recompute(position(5))
    world.recompute(position(8))
    world.file_in_archive()
    return world


@pytest.fixture
def world(whole: World, tmp_path: Path) -> World:
    """The same, to be damaged."""
    return whole.moved(tmp_path)


def decoder(world: World) -> str:
    return decoder_fingerprint(world.project.sources[SOURCE])


def answer(world: World, capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """The exit code, and how many events are counted."""
    code = main(["query", "ever", "--json", "--project", str(world.folder)])
    found = json.loads(capsys.readouterr().out)
    return code, found["rows"][0]["n"] if code == 0 else 0


def torn(table: Path) -> None:
    """Every file lacks its last byte."""
    for path in table.rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-1])


def overwritten(table: Path) -> None:
    """Every file has other bytes, as many."""
    for path in table.rglob("*.parquet"):
        path.write_bytes(b"?" * path.stat().st_size)


def emptied(table: Path) -> None:
    """Every file is gone."""
    for path in table.rglob("*.parquet"):
        path.unlink()


def closed(table: Path) -> None:
    """The table's log cannot be read."""
    (table / "_delta_log" / f"{0:020}.json").write_text("garbage{")


def test_complete_tables_are_ok(world: World) -> None:
    assert fine(world.folder, "tables") == "12 Delta tables, all complete and of reader version 1"
    assert fine(world.folder, "views") == "publication 3: all 3 views complete"
    shutil.rmtree(world.tables.root)
    assert fine(world.folder, "views") == "nothing is published yet"


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("journal", torn),
        ("archive", emptied),
        ("decoded", overwritten),
        ("realtime", closed),
    ],
)
def test_a_damaged_table_is_a_finding_with_its_fix(world: World, kind: str, damage: Callable[[Path], None]) -> None:
    tables = world.tables
    address, problem = {
        "journal": (tables.control("releases"), looks.JOURNAL),
        "archive": (tables.archive(SOURCE), looks.ARCHIVE),
        "decoded": (tables.events(SOURCE, decoder(world)), looks.DECODED),
        "realtime": (tables.realtime(1, SOURCE), looks.REALTIME),
    }[kind]
    damage(Path(address))
    assert address in wrong(world.folder, "tables", problem).what


def test_a_missing_archive_is_a_finding(world: World) -> None:
    shutil.rmtree(world.tables.archive(SOURCE))
    assert "is missing, although archive runs wrote it" in wrong(world.folder, "tables", looks.ARCHIVE).what


def test_a_removed_realtime_table_is_created_again(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    before = answer(world, capsys)
    torn(Path(world.tables.realtime(1, SOURCE)))
    found = wrong(world.folder, "tables", looks.REALTIME)
    assert answer(world, capsys)[0] == 1
    assert f"remove `{world.tables.realtime(1, SOURCE)}`" in (found.fix or "")
    shutil.rmtree(world.tables.realtime(1, SOURCE))
    world.writer = Writer.claim(world.tables, 1, SOURCE, by="test", at=NOON)
    world.trigger()
    assert answer(world, capsys) == before == (0, 9)
    fine(world.folder, "tables")


def test_removed_decoded_tables_are_decoded_again(world: World) -> None:
    closed(Path(world.tables.quarantine(SOURCE, decoder(world))))
    fix = wrong(world.folder, "tables", looks.DECODED).fix or ""
    ledger = ArchiveLedger(world.tables, SOURCE)
    assert ledger.end(decoder(world)) == position(11)
    removed = fix.split("`")[1:4:2]
    assert [Path(folder).relative_to(world.tables.root).parts[0] for folder in removed] == ["control", "log"]
    for folder in removed:
        shutil.rmtree(folder)
    assert not Path(world.tables.events(SOURCE, decoder(world))).exists()
    fine(world.folder, "tables")
    assert ledger.end(decoder(world)) == LOG_START
    assert ledger.archived() == position(11)


def of_version(world: World, view: str, number: int) -> Path:
    """The files of a batch version."""
    live = Publications(world.tables).history()[number - 1].views[view]
    return Path(world.tables.view(view, live.fingerprint)) / f"batch_version={live.version}"


def test_a_damaged_batch_view_is_a_finding(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(world, capsys) == (0, 9)
    overwritten(of_version(world, "ever", 3))
    fine(world.folder, "tables")
    found = wrong(world.folder, "views", looks.LOST_PART)
    assert found.what.startswith("view 'ever', publication 3: file batch_version=2/")
    assert world.tables.view("ever", "") in found.what
    assert found.what.endswith(" is missing or torn")
    assert (found.fix or "").startswith("`tandem recompute ever` ")
    assert answer(world, capsys)[0] == 1


def test_a_missing_batch_version_is_a_finding(world: World) -> None:
    world.drop_version("inverse", 2)
    assert "0 of the 2 rows of batch version 2" in wrong(world.folder, "views", looks.LOST_PART).what


def test_a_view_that_does_not_open_is_a_finding(world: World) -> None:
    table = of_version(world, "ever", 3).parent
    closed(table)
    found = wrong(world.folder, "tables", looks.VIEW)
    assert (str(table) in found.what, f"remove `{table}`" in (found.fix or "")) == (True, True)
    shutil.rmtree(table)
    fine(world.folder, "tables")
    assert "of batch version 2 does not exist" in wrong(world.folder, "views", looks.LOST_PART).what


def test_a_version_that_only_older_publications_name_is_a_warning_after_a_rebuild(world: World) -> None:
    again = BatchPart(3, world.write_version("ever", 3, position(8)), position(8))

    def derive(parent: Publication | None) -> Publication:
        assert parent is not None
        return replace(parent, views={**parent.views, "ever": replace(parent.views["ever"], parts=(again,))})

    emptied(of_version(world, "ever", 3))
    Publications(world.tables).publish(derive)
    wrong(world.folder, "tables", looks.OLD_PART)
    fine(world.folder, "views")


def commit(table: Path, action: dict[str, object]) -> None:
    """What another program may commit to a table."""
    version = DeltaTable(table).version() + 1
    (table / "_delta_log" / f"{version:020}.json").write_text(json.dumps(action))


def test_a_table_with_a_newer_reader_version_is_a_finding(world: World) -> None:
    table = of_version(world, "ever", 3).parent
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    commit(table, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    told = wrong(world.folder, "tables", looks.NOT_PLAIN).what
    assert told == f"{table} needs reader version 3, writer version 7, deletionVectors; Tandem supports 1 and 2"


def test_a_table_with_a_newer_writer_version_is_a_finding(world: World) -> None:
    table = Path(world.tables.archive(SOURCE))
    DeltaTable(table).alter.add_constraint({"positive": '"offset" >= 0'})
    assert "writer version 3" in wrong(world.folder, "tables", looks.WRITER).what


def test_files_that_their_owner_deletes_meanwhile_are_not_a_finding(world: World) -> None:
    before = delta_tables.open_table(world.tables, world.tables.realtime(1, SOURCE))
    assert before is not None
    world.writer = Writer.claim(world.tables, 1, SOURCE, by="test", at=NOON)
    assert world.compact()
    now = delta_tables.files(delta_tables.reopen(before))
    for path in set(delta_tables.files(before)) - set(now):
        (Path(before.table_uri.removeprefix("file://")) / path).unlink()
    handle, damaged = looks.looked_through(before)
    assert (damaged, delta_tables.files(handle)) == ([], now)
