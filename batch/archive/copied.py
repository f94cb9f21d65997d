"""The files that copying tasks have written, before a commit names them."""

from dataclasses import dataclass

from tandem.batch.archive.decode import DecodeResult
from tandem.batch.runtime.parquet_writer import Written
from tandem.ledger.files.file_ranges import RECORDS
from tandem.ledger.log.fetch_checks import named
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Interval, Partition, Ranges


class CopyIncomplete(TandemError, code="archive-copy-torn"):
    """The files of a run are not the planned part of the log, each record once."""


@dataclass(frozen=True)
class Copied:
    """The archive's files of one run, each with records of one partition in order, and the files of their decoded events.

    `decoded` is None if the records were copied only.
    """

    files: tuple[Written, ...]
    decoded: DecodeResult | None

    @property
    def records(self) -> int:
        """How many records were copied."""
        return sum(file.rows for file in self.files)


def refuse_torn(copied: Copied, planned: Ranges) -> None:
    """Raise CopyIncomplete unless each file is a piece of the planned ranges, no two files overlap, and all records were decoded.

    Offsets without a record are allowed: whether they are lost is decided later.
    """
    reached: dict[Partition, int] = {}
    intervals = dict(planned.intervals)
    for partition, (low, end), rows in sorted(map(_piece, copied.files)):
        start, mine = reached.get(partition, 0), intervals.get(partition, ())
        if low < start or rows > end - low or not any(first <= low and end <= to for first, to in mine):
            shown = ", ".join(f"[{first}, {to})" for first, to in mine) or "nothing"
            raise CopyIncomplete(
                f"a task copied {rows} records of offsets [{low}, {end}) of {named(partition)}, but {shown} was planned, and "
                f"other tasks copied up to {start}; nothing was committed; run `tandem archive` again"
            )
        reached[partition] = end
    if copied.decoded is not None and copied.decoded.records != copied.records:
        raise CopyIncomplete(
            f"{copied.records} records were copied and {copied.decoded.records} of them decoded; nothing was committed; run "
            "`tandem archive` again"
        )


def _piece(file: Written) -> tuple[Partition, Interval, int]:
    (topic, last_topic), (number, last_number), (low, high) = (file.bounds[name] for name in RECORDS.names)
    if (topic, number) != (last_topic, last_number):
        raise CopyIncomplete(
            f"a task copied records of {named((topic, number))} and of {named((last_topic, last_number))} into one file"
        )
    return (topic, number), (low, high + 1), file.rows
