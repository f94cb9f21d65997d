"""Whether a topic still has the records that were read of it, before anything is read on."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import RECORDS, LogTable, log_table
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.last_of_records import last_of
from tandem.ledger.log.last_records import LastRecord, LastRecords, hash_of, newest_of
from tandem.ledger.realtime.commits import Commit
from tandem.views.source.offset_ranges import Interval, Offsets, Partition, Ranges
from tandem.views.source.source import Source

_AT_ONCE = 1 << 16


class PresentRecord(Protocol):
    """A record that the log has now."""

    @property
    def milliseconds(self) -> int:
        """Its timestamp."""

    @property
    def value(self) -> bytes | None:
        """Its value."""


@dataclass(frozen=True)
class PresentLog:
    """The log now: the names of its topics by id, its first offsets, and the records at some offsets, None without a record."""

    names: Mapping[str, str] = field(hash=False)
    starts: Callable[[], Offsets] = field(hash=False)
    records_at: Callable[[Offsets], Mapping[Partition, PresentRecord | None]] = field(hash=False)


def refuse_cut_log(tables: Tables, source: Source, log: PresentLog, commits: Iterable[Commit] = ()) -> None:
    """Raise LogChanged if a partition has another record where the archive or a commit has read its last one.

    What retention has deleted since cannot be compared, nor what compaction may have deleted. Raises what the log raises.
    """
    refuse_other_records(source, log, _newest_records(tables, source.name, log.starts(), commits))


def refuse_other_records(source: Source, log: PresentLog, remembered: LastRecords) -> None:
    """Raise LogChanged if a partition has another record where one of these was read, as `refuse_cut_log`."""
    lows = log.starts()
    left = {place: record for place, record in remembered.items() if place in lows and record.offset >= lows[place]}
    if not left:
        return
    present = log.records_at({place: record.offset for place, record in left.items()})
    for place, record in left.items():
        there = present[place]
        if there is None and source.compacted:
            continue
        if there is not None and hash_of(1000 * there.milliseconds, there.value) == record.hash:
            continue
        if log.starts()[place] > record.offset:
            continue  # retention has deleted it meanwhile
        raise LogChanged(
            f"partition {place[1]} of topic '{log.names[place[0]]}' has {'no' if there is None else 'another'} record at offset "
            f"{record.offset}, where source '{source.name}' has read one: the log was cut back and has grown again, as after the "
            "restore of a broker's volume or an unclean election, so the same offsets are other records; nothing was read or "
            "deleted, and all that was counted stays; docs/recover.md#a-log-that-was-cut-back explains how to continue with "
            "`tandem archive --new-topic`"
        )


def _newest_records(
    tables: Tables, source: str, partitions: Collection[Partition], commits: Iterable[Commit]
) -> dict[Partition, LastRecord]:
    """The newest record of each of these partitions that the archive or a commit has read."""
    counted = {place: record for place, record in newest_of(each.last_records for each in commits).items() if place in partitions}
    reached = ArchiveLedger(tables, source).archived()
    # A commit needs no file of the archive to be read.
    ahead = {
        place: end
        for place, end in reached.items()
        if place in partitions and (place not in counted or counted[place].offset < end)
    }
    return newest_of([counted, last_of_archive(log_table(tables, tables.archive(source), RECORDS), ahead)])


def last_of_archive(archive: LogTable, ends: Offsets) -> LastRecords:
    """The last record that the archive has of each partition below these ends. Raises Unreadable."""
    return newest_of(_last_below(archive, place, end) for place, end in ends.items())


def _last_below(archive: LogTable, place: Partition, end: int) -> LastRecords:
    below: Interval = (0, end)
    files = sorted((file for file in archive.files if file.overlap(place, below)), key=lambda file: file.offsets[1], reverse=True)
    newest: dict[Partition, LastRecord] = {}
    for file in files:
        if newest and file.offsets[1] <= newest[place].offset + 1:
            break
        pieces = scan(archive.place, Slice(Ranges.of({place: below}), (file.path,), 0), RECORDS, [RECORDS.offset], rows=_AT_ONCE)
        offset = max((max(piece[RECORDS.offset].to_pylist()) for piece in pieces if piece.num_rows), default=None)
        if offset is not None and (not newest or offset > newest[place].offset):
            whole = Slice(Ranges.of({place: (offset, offset + 1)}), (file.path,), 0)
            columns = [*RECORDS.names, "timestamp", "value"]
            newest = newest_of(last_of(rows) for rows in scan(archive.place, whole, RECORDS, columns, rows=_AT_ONCE))
    return newest
