"""A renamed view is answered from the table of its former name, and the table stays."""

from dataclasses import replace
from pathlib import Path

from tandem.batch.maintain.maintain import drop_unneeded, expire_versions
from tandem.ledger.publish import publications
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tests.serving.world import NOON, World, hit


def test_reader_memory_and_maintenance_use_the_named_table(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, *(hit("/a", n) for n in range(30)))
    world.trigger()
    batch_view = world.recompute(world.end).views["per_page"]
    reader = Reader(world.tables)
    reader.refresh()
    rows = given(reader.answer("per_page")).rows()
    renamed = replace(batch_view, at="former/feed")
    table = Path(batch_view.address(world.tables, "per_page"))
    moved = Path(renamed.address(world.tables, "per_page"))
    moved.parent.mkdir()
    table.rename(moved)

    def derive(parent: Publication | None) -> Publication | None:
        return parent and replace(parent, views={**parent.views, "per_page": renamed})

    published = Publications(world.tables).publish(derive)
    assert published is not None
    assert Publications(world.tables).latest() == published
    assert publications.whole(world.tables, [published]) == [published]
    reader.refresh()
    assert given(reader.answer("per_page")).rows() == rows
    held = Connection(Store(world.tables, 1 << 24)).view("per_page").now()
    assert held.memory is not None
    assert sorted(map(str, held.scan().rows())) == sorted(map(str, rows))
    assert expire_versions(world.tables, str(moved), [published], at=NOON) == 0
    stored = Releases(world.tables).every()
    assert str(moved) not in drop_unneeded(world.tables, stored, [], needed=stored, kept=[published])
    assert moved.is_dir()
