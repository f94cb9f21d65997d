"""Where a rebuild reads its events: from the events table, or from scratch files that it decodes the archive into."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from batch.archive import decode
from batch.rebuild.inputs import RebuildJob
from batch.runtime.file_ranges import EVENTS, RECORDS, FileRange, rows_within, table_ranges
from batch.runtime.parallelism import FEW_ROWS
from batch.runtime.scan import inside, scan
from batch.runtime.session import BatchRun
from batch.runtime.splits import Slice, cut, even_rows
from ledger.delta.addresses import Tables
from ledger.delta.location import Location
from views.source.offset_ranges import Ranges

_DECODE_ROWS: Final = 1_000_000
_SCAN_ROWS: Final = 1 << 18


@dataclass(frozen=True)
class Events:
    """The files of the events, how many records were quarantined by reason, and how many records the range has.

    `records` is None if all records of the topics belong to this source: then it is not needed.
    """

    place: Location
    files: tuple[FileRange, ...]
    quarantined: Mapping[str, int] = field(hash=False)
    records: int | None = None


def decoded_events(batch: BatchRun, job: RebuildJob, covered: Ranges, scratch: Location) -> Events:
    """Decode the archive's records of these ranges into scratch files: a Spark job. Raises TaskFailed."""
    archive = Location.of(batch.tables, batch.tables.archive(job.source.name))
    work = decode.Decoding(job.release.files, job.source.name, archive, scratch, scratch)
    files = table_ranges(batch.tables, archive.address, RECORDS)
    rows = even_rows(rows_within(files, covered), batch.parallelism, least=FEW_ROWS, most=_DECODE_ROWS)
    decoded = decode.decode(batch.session, work, cut(files, covered, rows=rows))
    return Events(
        scratch,
        tuple(decoded.event_ranges()),
        dict(sorted(decoded.quarantined.items())),
        None if job.source.record_filter is None else decoded.records,
    )


def stored_events(tables: Tables, job: RebuildJob, covered: Ranges) -> Events:
    """Read the events and quarantine tables of the job's decoder. Raises Unreadable."""
    address = tables.events(job.source.name, job.decoder)
    return Events(
        place=Location.of(tables, address),
        files=tuple(table_ranges(tables, address, EVENTS, job.source.event_time)),
        quarantined=_quarantined(tables, tables.quarantine(job.source.name, job.decoder), covered),
        records=None if job.source.record_filter is None else archived_records(tables, job.source.name, covered),
    )


def archived_records(tables: Tables, source: str, covered: Ranges) -> int:
    """The number of records that the archive has in these ranges."""
    files = table_ranges(tables, tables.archive(source), RECORDS)
    # Most files lie inside the ranges: their row counts are enough.
    whole = [span for span in files if inside(span, covered)]
    part = Slice(covered, tuple(span.path for span in files if span not in whole), 0)
    found = scan(Location.of(tables, tables.archive(source)), part, RECORDS, [RECORDS.offset], rows=_SCAN_ROWS)
    return sum(span.rows for span in whole) + sum(int(rows.num_rows) for rows in found)


def _quarantined(tables: Tables, address: str, covered: Ranges) -> dict[str, int]:
    """How many records of these ranges are in a quarantine table, by reason."""
    rejects = [span for span in table_ranges(tables, address, RECORDS) if rows_within([span], covered)]
    part = Slice(covered, tuple(span.path for span in rejects), sum(span.rows for span in rejects))
    reasons = Counter[str]()
    for rows in scan(Location.of(tables, address), part, RECORDS, ["reason"], rows=_SCAN_ROWS):
        reasons.update(rows["reason"].to_pylist())
    return dict(sorted(reasons.items()))
