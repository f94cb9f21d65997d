"""Export: a source's archive as a folder of Parquet files and a manifest, to be imported by another installation. Needs no Spark.

The manifest is written last, so a folder with a manifest is complete. Runs and decoded tables are not exported: an import needs
only the archived records and the gaps, and decodes them again.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tandem.batch.runtime.parquet_writer import TableFile
from tandem.batch.transfer.archived_records import Records
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.splits import cut
from tandem.ledger.log import gaps, manifest
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.log.manifest import Exported, ExportedGap, ExportedRange, ExportedTopic, File, Manifest
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.views.decode.schema_ids import dump_schemas
from tandem.views.errors import TandemError
from tandem.views.source.formats.schema_registry import FetchedSchemas
from tandem.views.source.offset_ranges import Interval, Partition, Ranges
from tandem.views.source.source import RECORDS_SCHEMA

UNFINISHED: Final = "unfinished"
_FILE_ROWS: Final = 1_000_000
_FILE_BYTES: Final = 128 << 20


class NotExported(TandemError, code="export-impossible"):
    """The export is not possible."""


def run(
    tables: Tables,
    sources: Sequence[str],
    folder: Path,
    *,
    say: Callable[[str], None],
    schemas: Callable[[], FetchedSchemas] = dict,
) -> Manifest:
    """Write the archived records of these sources to an empty or absent folder, or replace what a killed export left.

    `schemas` returns those that the records name, with which the other installation decodes them without a registry, and alike.

    The export ends with the last run whose gaps are recorded. Archive runs may continue meanwhile. Raises NotExported, also if a
    source has no archived records, and Unreadable.
    """
    ends = {source: ArchiveLedger(tables, source).accounted() for source in sources}
    for source, end in ends.items():
        if not end:
            raise NotExported(f"source {source!r} has no archived records; run `tandem archive` first")
    try:
        _make_ready(folder)
        exported = {source: _export(tables, source, end, folder, say) for source, end in ends.items()}
        made = Manifest(1, exported, _write_schemas(folder, schemas()))
        unfinished = folder / UNFINISHED
        unfinished.write_bytes(manifest.write(made))
        unfinished.rename(folder / manifest.FILE)
    except FileNotFoundError as error:
        raise NotExported(f"the export lost a file that it was reading, {error.filename or error}; run it again") from error
    except OSError as error:
        raise NotExported(f"cannot write to {folder}: {error.strerror or error}") from error
    return made


def _write_schemas(folder: Path, schemas: FetchedSchemas) -> str:
    """Write the schemas beside the manifest, if there are any. Returns the SHA-256."""
    if not schemas:
        return ""
    path = folder / manifest.SCHEMAS
    path.write_bytes(dump_schemas(schemas))
    return sha256(path)


def _make_ready(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    there = {entry.name for entry in folder.iterdir()}
    if UNFINISHED in there:
        for left in folder.glob("*/part-*.parquet"):
            left.unlink()
    elif there:
        raise NotExported(f"{folder} is not empty; name an absent or empty folder")
    (folder / UNFINISHED).write_bytes(b"")


def _export(tables: Tables, source: str, end: Position, folder: Path, say: Callable[[str], None]) -> Exported:
    ledger = ArchiveLedger(tables, source)
    covered = ranges(LOG_START, end, ledger.firsts())
    say(f"{source}: writing {covered.length} offsets to {folder}")
    erasures = Erasures(tables)
    erasures.count_within(source, covered)  # refuses an erasure that is still removing records
    erased = erasures.ranges(source).within(covered)
    held, there = manifest.covered(covered), Records.archived(tables, source)
    stretches = tuple(
        _write(there, partition, interval, folder, source)
        for partition, whole in held.items()
        for interval in _intervals(there.of(partition), partition, whole)
    )
    names, ids = ledger.topic_names(), {topic for topic, _ in held}
    return Exported(
        topics=tuple(ExportedTopic(topic, names[topic]) for topic in ledger.generations() if topic in ids),
        covered=manifest.written(covered),
        rows=sum(stretch.rows for stretch in stretches),
        gaps=tuple(
            ExportedGap(gap.reason, manifest.written(gap.ranges))
            for gap in gaps.touching(Gaps(tables).of(source), source, LOG_START, end)
        ),
        stretches=stretches,
        erased=manifest.written(erased),
        until=erasures.until(source),
    )


def _intervals(there: Records, partition: Partition, whole: Interval) -> Iterator[Interval]:
    """Split the interval into one piece for each file."""
    size, rows = sum(file.size for file in there.files), sum(file.rows for file in there.files)
    wanted = max(1, min(_FILE_ROWS, _FILE_BYTES * rows // max(1, size)))
    for part in cut(there.files, Ranges.of({partition: whole}), rows=wanted):
        yield from manifest.covered(part.ranges).values()


def _write(there: Records, partition: Partition, interval: Interval, folder: Path, source: str) -> ExportedRange:
    with TableFile(Location(str(folder.absolute() / source)), RECORDS_SCHEMA) as file:
        for table in there.read(partition, interval):
            file.write(table)
    if file.written is None:
        return ExportedRange(*partition, *interval, 0, None)
    path = f"{source}/{file.written.path}"
    return ExportedRange(*partition, *interval, file.written.rows, File(path, file.written.size, sha256(folder / path)))


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
