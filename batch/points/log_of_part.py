"""The log that a part of a view reads; events of which it has several copies are apart, with the time until which each counts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from tandem.batch.fold.duplicates import Search
from tandem.batch.fold.suspects import SetApart
from tandem.batch.points.copies import BY_TIME, UNTIL, Arrival, Copies, copies
from tandem.batch.runtime import scratch
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.views.instant import APPEND_TIME
from tandem.views.read_columns import columns
from tandem.views.source.source import Source, position_columns
from tandem.views.view import View

_SCAN_ROWS: Final = 1 << 17


@dataclass(frozen=True)
class LogOfPart:
    """The events of a view's part below the cut.

    Args:
        events: their location.
        generations: the ids of their topics.
        hashes: scratch files of the hashes of events with copies.
        arrival: how their arrival is measured, by time or by position.
    """

    events: Location
    generations: tuple[str, ...]
    hashes: tuple[str, ...] = ()
    arrival: Arrival = BY_TIME


def log_of_part(
    batch: BatchRun, files: Mapping[str, bytes], source: Source, log: LogOfPart, cut: Sequence[Slice]
) -> tuple[LogOfPart, tuple[Slice | str, ...]]:
    """Find the copies: the log with their hashes, and its pieces, which are slices and scratch files of events with copies.

    `files` are those of the release that defines the source. Raises TaskFailed, Unreadable.
    """
    apart = Copies()
    if source.identity and cut:
        search = Search(files, source.name, log.events, scratch.scratch(batch.tables), log.generations)
        apart = copies(batch.session, search, cut, batch.parallelism, log.arrival)
    return replace(log, hashes=apart.hashes), (*cut, *apart.events)


def events_with_until(part: View, log: LogOfPart, place: Location, piece: Slice | str) -> Iterator[pa.Table]:
    """The events of a piece that count at some time: what the part reads, and `UNTIL`. `place` has the scratch files."""
    source = part.source
    needed = sorted({*position_columns(source), APPEND_TIME, source.time_column, *columns(part)})
    if isinstance(piece, str):
        yield opened(place, piece).read(use_threads=False).select([*needed, UNTIL.name])
        return
    apart = SetApart.read(source, place, log.hashes)
    read = sorted({*needed, *(apart.made.columns if apart.made is not None else ())})
    for events in scan(log.events, piece, EVENTS, read, rows=_SCAN_ROWS, made=apart.made):
        single, _ = apart.split(events, needed)
        yield single.append_column(UNTIL, pa.nulls(single.num_rows, UNTIL.type))
