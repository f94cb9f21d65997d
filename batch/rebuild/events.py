"""The events of a rebuild: decoded from the archive into scratch files, or listed in the source's tables and counted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tandem.batch.archive.decode import Decoding, decode
from tandem.batch.runtime.parallelism import FEW_ROWS
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import FileRange, LogTable, rows_within
from tandem.ledger.files.scan import inside, scan
from tandem.ledger.files.splits import Slice, cut, even_rows
from tandem.views.source.offset_ranges import Ranges

_DECODE_ROWS: Final = 1_000_000
_SCAN_ROWS: Final = 1 << 18


@dataclass(frozen=True)
class Events:
    """The files of the events, how many records were quarantined by reason, and how many records the range has.

    `records` is None if it was not counted, because all records of the topics belong to this source.
    """

    place: Location
    files: tuple[FileRange, ...]
    quarantined: Mapping[str, int] = field(hash=False)
    records: int | None = None


def decoded_events(batch: BatchRun, work: Decoding, archive: LogTable, covered: Ranges) -> Events:
    """Decode the archive's records of these ranges into scratch files: a Spark job. Raises TaskFailed."""
    rows = even_rows(rows_within(archive.files, covered), batch.parallelism, least=FEW_ROWS, most=_DECODE_ROWS)
    decoded = decode(batch.session, work, cut(archive.files, covered, rows=rows))
    return Events(work.events, tuple(decoded.event_ranges()), dict(sorted(decoded.quarantined.items())), decoded.records)


def stored_events(events: LogTable, quarantine: LogTable, archive: LogTable | None, covered: Ranges) -> Events:
    """The events table's files, and what the other tables hold of these ranges. Raises Unreadable."""
    rejects = quarantined_within(quarantine, covered)
    return Events(events.place, events.files, rejects, None if archive is None else records_within(archive, covered))


def records_within(archive: LogTable, covered: Ranges) -> int:
    """The number of records that the archive has in these ranges."""
    # Most files lie inside the ranges: their row counts are enough.
    whole = [file for file in archive.files if inside(file, covered)]
    part = Slice(covered, tuple(file.path for file in archive.files if file not in whole), 0)
    found = scan(archive.place, part, archive.columns, [archive.columns.offset], rows=_SCAN_ROWS)
    return sum(file.rows for file in whole) + sum(int(rows.num_rows) for rows in found)


def quarantined_within(quarantine: LogTable, covered: Ranges) -> dict[str, int]:
    """How many records of these ranges are in a quarantine table, by reason."""
    rejects = [file for file in quarantine.files if rows_within([file], covered)]
    part = Slice(covered, tuple(file.path for file in rejects), sum(file.rows for file in rejects))
    reasons = Counter[str]()
    for rows in scan(quarantine.place, part, quarantine.columns, ["reason"], rows=_SCAN_ROWS):
        reasons.update(rows["reason"].to_pylist())
    return dict(sorted(reasons.items()))
