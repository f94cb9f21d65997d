"""An archive that moves between installations, in memory: export and import without their files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tandem.batch.transfer.export_archive
import tandem.batch.transfer.import_archive
from tandem.batch.runtime.parquet_writer import Written
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.manifest import ExportedRange, File
from tandem.views.source.offset_ranges import Interval, Partition, Ranges
from tests.simulation.numbers import SOURCE
from tests.simulation.world import World, inside, stored, written

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Records:
    """In place of tandem.batch.transfer.archived_records.Records: the rows of an archive, or of an export of it."""

    rows: Sequence[Row]

    @classmethod
    def archived(cls, tables: Tables, source: str) -> "Records":
        return cls(stored(tables.archive(source)))

    def of(self, partition: Partition) -> "Records":
        return Records([row for row in self.rows if (row["topic"], row["partition"]) == partition])

    def read(self, partition: Partition, interval: Interval) -> list[Row]:
        return [row for row in self.rows if inside(row, Ranges.of({partition: interval}))]


@dataclass(frozen=True)
class Moved:
    """What an export holds."""

    exported: Any
    records: Records


def export(world: World) -> Moved | None:
    """What `tandem export` takes along; None if nothing is archived yet."""
    end = ArchiveLedger(world.tables, SOURCE).accounted()
    if not end:
        return None
    exported = tandem.batch.transfer.export_archive._export(world.tables, SOURCE, end, Path(), world.say)
    return Moved(exported, Records(stored(world.tables.archive(SOURCE))))


def take(world: World, moved: Moved) -> None:
    """What `tandem import` does with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tandem.batch.transfer.import_archive, "_exported", lambda *_: moved.records)
        new = tandem.batch.transfer.import_archive._new(world.tables, Path(), SOURCE, moved.exported)
        tandem.batch.transfer.import_archive._import(world.tables, new, world.now)


@contextmanager
def without_files() -> Iterator[None]:
    """Replace what reads and writes the files of exports."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (tandem.batch.transfer.export_archive, tandem.batch.transfer.import_archive):
            patch.setattr(module, "Records", Records)
        patch.setattr(tandem.batch.transfer.export_archive, "_intervals", lambda _, __, whole: [whole])
        patch.setattr(tandem.batch.transfer.export_archive, "_write", _stretch)
        patch.setattr(tandem.batch.transfer.import_archive, "_write", _file)
        patch.setattr(
            tandem.batch.transfer.import_archive, "first_difference", lambda mine, theirs: None if mine == theirs else 0
        )
        yield


def _stretch(there: Records, partition: Partition, interval: Interval, *_: object) -> ExportedRange:
    rows = there.read(partition, interval)
    return ExportedRange(*partition, *interval, len(rows), File("", 0, "") if rows else None)


def _file(tables: Tables, new: Any, partition: Partition, interval: Interval) -> list[Written]:
    rows = new.records.read(partition, interval)
    return [written(tables.archive(SOURCE), list(rows))] if rows else []
