"""Import: add an export of another installation to this installation's archive. Needs no Spark.

1. Verify every file, and compare it with the archived records at the same positions, before anything is written.
2. Write the files.
3. Record runs, one for each topic, so that generations stay in order.
4. Record names, gaps and erased positions. Schemas of registries were added before: of two answers to one id, this
   installation's stays.
5. Make all of a source's records visible in one commit.

If an import is killed, importing the same folder again finishes it; `archive` refuses to run before that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.parquet_writer import TableFile, Written
from tandem.batch.runtime.table_locks import locked
from tandem.batch.transfer.archived_records import Records, first_difference, refuse_disordered
from tandem.batch.transfer.export_archive import sha256
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import reason
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import RECORDS, FileRange
from tandem.ledger.log import manifest
from tandem.ledger.log.archive_runs import APP_ID, IMPORT, ArchiveLedger
from tandem.ledger.log.erasures import Erasures, ErasureStage
from tandem.ledger.log.fetch_checks import named
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.log.manifest import Exported, ExportedRange, Manifest
from tandem.ledger.log.positions import Position, upper
from tandem.ledger.log.registry_schemas import add_schemas
from tandem.views.decode.schema_ids import load_schemas
from tandem.views.errors import TandemError
from tandem.views.source.formats.schema_registry import FetchedSchemas
from tandem.views.source.offset_ranges import Interval, Offsets, Partition, Ranges
from tandem.views.source.source import RECORDS_SCHEMA

BOUNDED: Final = (*RECORDS.names, "timestamp")


class NotImported(TandemError, code="import-impossible"):
    """This installation cannot import the export; none of its records are visible."""


@dataclass(frozen=True)
class Imported:
    """The end of a source's archive now, whether the import added anything (`new`), and how many records."""

    source: str
    end: Position
    new: bool
    records: int


@dataclass(frozen=True)
class _Step:
    """One run of an import: the new records of one topic."""

    start: Position
    end: Position
    firsts: Offsets


@dataclass(frozen=True)
class _New:
    """The part of a source's export that the archive lacks: an interval for each partition, and the runs for them.

    `lost` are offsets that this installation recorded of the log, and that lie before the start of the export.
    """

    source: str
    exported: Exported
    records: Records
    steps: tuple[_Step, ...]
    parts: Mapping[Partition, Interval]
    lost: Ranges


def run(
    settings: Settings, folder: Path, sources: Sequence[str], *, now: Callable[[], datetime], say: Callable[[str], None]
) -> list[Imported]:
    """Import a folder that `tandem export` wrote. `sources` are the names that the project defines; archive runs wait meanwhile.

    Raises BadManifest or NotImported, naming file or source, before anything is visible; locks.LockTimeout.
    """
    made = read(folder)
    for name in made.sources:
        if name not in sources:
            raise NotImported(
                f"{folder} has records of source {name!r}, which the project does not define; sources: {', '.join(sources)}"
            )
    with locked(settings, "archive", what="tandem import", now=now, say=say) as tables:
        for name, exported in made.sources.items():
            say(f"{name}: verifying {exported.rows} records")
            for stretch in exported.stretches:
                _verify(folder, stretch)
        schemas = _verify_schemas(folder, made.schemas)
        for name in made.sources:
            # Before the archive is compared: from here on no archive run before this import commits.
            delta_commits.make_table(tables, tables.archive(name), RECORDS_SCHEMA, bounded=BOUNDED)
        found = [_new(tables, folder, name, exported) for name, exported in made.sources.items()]
        add_schemas(tables, schemas, at=now())
        return [_import(tables, new, now) for new in found]


def read(folder: Path) -> Manifest:
    """The manifest of an export. Raises BadManifest."""
    where = folder / manifest.FILE
    try:
        return manifest.read(where.read_bytes(), str(where))
    except OSError as error:
        raise manifest.BadManifest(f"{folder} is not an export: cannot read {where}: {error.strerror or error}") from None


def _verify(folder: Path, stretch: ExportedRange) -> None:
    """Raise NotImported unless the stretch's file matches the manifest."""
    if (file := stretch.file) is None:
        return
    path = folder / file.path
    try:
        if not path.resolve(strict=True).is_relative_to(folder.resolve()):
            raise NotImported(f"{path} is a link out of {folder}; nothing was imported")
        if path.stat().st_size != file.bytes or sha256(path) != file.sha256:
            raise NotImported(f"{path} is not the exported file: its SHA-256 differs; nothing was imported")
        with pq.ParquetFile(path, page_checksum_verification=True) as opened:
            _verify_rows(opened, stretch, path)
    except (OSError, pa.ArrowException) as error:
        raise NotImported(f"{path} cannot be read: {reason(error)}; nothing was imported") from error


def _verify_schemas(folder: Path, digest: str) -> FetchedSchemas:
    """The exported schemas of registries. Raises NotImported unless their file has this SHA-256; none if it is empty."""
    if not digest:
        return {}
    path = folder / manifest.SCHEMAS
    try:
        if path.is_symlink() or sha256(path) != digest:
            raise NotImported(f"{path} is not the exported file: its SHA-256 differs; nothing was imported")
        return load_schemas(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise NotImported(f"{path} cannot be read: {error}; nothing was imported") from error


def _verify_rows(opened: pq.ParquetFile, stretch: ExportedRange, path: Path) -> None:
    if not opened.schema_arrow.equals(RECORDS_SCHEMA):
        raise NotImported(f"{path} has the columns {opened.schema_arrow.names}, not those of an archive; nothing was imported")
    if opened.metadata.num_rows != stretch.rows:
        raise NotImported(
            f"{path} has {opened.metadata.num_rows} records, but its manifest says {stretch.rows}; nothing was imported"
        )
    before = stretch.start - 1
    for batch in opened.iter_batches(columns=RECORDS.names):
        table = pa.Table.from_batches([batch])
        if any(table[name].unique().to_pylist() != [value] for name, value in zip(RECORDS.names, stretch.place, strict=False)):
            raise NotImported(f"{path} has records outside {named(stretch.place)}; nothing was imported")
        before = refuse_disordered(table, before, stretch.place, str(path))
    if before >= stretch.end:
        raise NotImported(f"{path} has offset {before} of {named(stretch.place)}, beyond its {stretch.end}; nothing was imported")


def _new(tables: Tables, folder: Path, name: str, exported: Exported) -> _New:
    """The new records of an export. Raises NotImported if the archive has another history, or cannot continue with the export."""
    ledger = ArchiveLedger(tables, name)
    held, known = ledger.archived(), ledger.firsts()
    _refuse_another_order(tables, name, exported)
    parts = dict[Partition, Interval]()
    mine, theirs = Records.archived(tables, name), _exported(folder, exported, Erasures(tables).ranges(name))
    for partition, (start, end) in manifest.covered(exported.ranges).items():
        reached = held.get(partition)
        if reached is None:
            parts[partition] = (start, end)
            continue
        first = known.get(partition, 0)
        if start < first or start > reached:
            raise NotImported(
                f"the archive of source {name!r} has {named(partition)} from {first} to {reached}, the export from {start} to "
                f"{end}: neither continues where the other ends; import into a state folder without an archive of this source"
            )
        shared = (start, min(end, reached))
        if (offset := first_difference(mine.read(partition, shared), theirs.read(partition, shared))) is not None:
            raise NotImported(
                f"the archive of source {name!r} and the export have different records at offset {offset} of {named(partition)}; "
                "nothing was imported"
            )
        if reached < end:
            parts[partition] = (reached, end)
    begins = {partition: start for partition, (start, _) in parts.items() if partition not in held}
    fresh = {partition: min(start, known.get(partition, start)) for partition, start in begins.items()}
    steps = tuple(_steps(exported, held, parts, fresh))
    unwritten = ledger.unwritten()
    intended = [_Step(run.start, run.end, dict(run.firsts)) for run in unwritten]
    if not all(run.imported for run in unwritten):
        raise NotImported(f"an archive run of source {name!r} is incomplete; run `tandem archive`, then import again")
    if intended != list(steps[: len(intended)]):
        raise NotImported(f"an import of source {name!r} from another folder is incomplete; import that folder again first")
    lost = Ranges.of({partition: (first, begins[partition]) for partition, first in fresh.items()})
    return _New(name, exported, theirs, steps, parts, lost)


def _refuse_another_order(tables: Tables, name: str, exported: Exported) -> None:
    """Raise NotImported unless both have their topics in the same order, with the new topics last."""
    ledger = ArchiveLedger(tables, name)
    held = {topic for topic, _ in ledger.archived()}
    there, here = (
        [topic.id for topic in exported.topics],
        [one for one in ledger.generations() if one in held],
    )
    shared = [topic for topic in here if topic in there]
    if there[: len(shared)] != shared or (len(shared) < len(there) and shared != here):
        raise NotImported(
            f"the archive of source {name!r} begins with the topics {', '.join(here)}, the export with {', '.join(there)}: "
            "neither continues where the other ends; import into a state folder without an archive of this source"
        )


def _exported(folder: Path, exported: Exported, erased: Ranges) -> Records:
    """The records of an export, without those that this installation has erased."""
    files = (
        FileRange(stretch.file.path, stretch.rows, (stretch.topic,) * 2, (stretch.partition,) * 2, (stretch.start, stretch.end))
        for stretch in exported.stretches
        if stretch.file is not None
    )
    return Records(Location(str(folder.absolute())), tuple(files), erased)


def _steps(exported: Exported, held: Position, parts: Mapping[Partition, Interval], firsts: Offsets) -> Iterator[_Step]:
    """A run for each topic with new records, in log order."""
    reached = held
    for topic in exported.topics:
        ends = {partition: end for partition, (_, end) in parts.items() if partition[0] == topic.id}
        if ends:
            end = upper(reached, Position.of(ends))
            yield _Step(reached, end, {partition: firsts[partition] for partition in ends if partition in firsts})
            reached = end


def _import(tables: Tables, new: _New, now: Callable[[], datetime]) -> Imported:
    """Write the new records and make them visible."""
    name = new.source
    ledger = ArchiveLedger(tables, name)
    if not new.steps:
        return Imported(name, ledger.archived(), new=False, records=0)
    handle = delta_commits.make_table(tables, tables.archive(name), RECORDS_SCHEMA, bounded=BOUNDED)
    written = [file for partition, interval in new.parts.items() for file in _write(tables, new, partition, interval)]
    lacking = ledger.unwritten()
    for step in new.steps[len(lacking) :]:
        run = ledger.intend(start=step.start, end=step.end, firsts=step.firsts, by=IMPORT, at=now())
        lacking.append(run)
    for topic in new.exported.topics:
        ledger.name_topics({topic.name: topic.id}, at=now())
    missing = [(_within(Ranges.from_json(gap.ranges), new.parts), gap.reason) for gap in new.exported.gaps]
    for ranges, why in [*missing, (new.lost, "the imported records begin after them")]:
        if ranges.length:
            Gaps(tables).record(name, ranges, reason=why, at=now())
    until = new.exported.until
    stage: ErasureStage = "erased" if until is None else "expired"
    Erasures(tables).intend(
        name, _within(Ranges.from_json(new.exported.erased), new.parts), by=IMPORT, at=now(), stage=stage, until=until
    )
    lease = tables.lease(tables.archive(name))
    delta_commits.add_files(handle, written, lease=lease, transaction=(APP_ID, lacking[-1].number))
    return Imported(name, lacking[-1].end, new=True, records=sum(file.rows for file in written))


def _write(tables: Tables, new: _New, partition: Partition, interval: Interval) -> Iterator[Written]:
    """Write the new records of a partition to files of the archive."""
    for stretch in new.exported.stretches:
        start, end = max(stretch.start, interval[0]), min(stretch.end, interval[1])
        if stretch.place == partition and start < end and stretch.file is not None:
            with TableFile(Location.of(tables, tables.archive(new.source)), RECORDS_SCHEMA, BOUNDED, in_log_order=True) as file:
                for table in new.records.read(partition, (start, end)):
                    file.write(table)
            if file.written is not None:
                yield file.written


def _within(ranges: Ranges, parts: Mapping[Partition, Interval]) -> Ranges:
    """The intersection of the ranges with the parts."""
    pieces = [
        Ranges.of({partition: (max(start, parts[partition][0]), min(end, parts[partition][1]))})
        for partition, intervals in ranges.intervals
        if partition in parts
        for start, end in intervals
        if start < parts[partition][1] and parts[partition][0] < end
    ]
    return Ranges().union(*pieces)
