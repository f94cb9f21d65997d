"""From when to when each event counts: a copy of an event that is appended later may be the earlier one in the order of the log.

At a time the log has the records that were appended until then. Of equal events the first in the order of the log counts, among
those that it has; so an event counts from its own append time until the least append time of the copies before it. A series of
positions can take the place of times: then an event arrives with the first position that is beyond it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from tandem.batch.fold.duplicates import Search, hashes_of_copies, suspects_of
from tandem.batch.runtime import spark_jobs
from tandem.batch.runtime.parquet_writer import TableFile
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.positions import Position
from tandem.views.arrow import arrays
from tandem.views.arrow.arrays import from_ipc
from tandem.views.arrow.partitions import by_partition
from tandem.views.instant import APPEND_TIME
from tandem.views.kernel.deduplicate import identity_columns
from tandem.views.project import project
from tandem.views.source.log_order import log_order
from tandem.views.source.source import Source
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted

UNTIL: Final = pa.field("_until", pa.int64())
"""The arrival of an earlier copy of an event, from which on the event does not count; NULL if no such copy arrived."""

_RANK: Final = "_rank"
_ARRIVAL: Final = "_arrival"
_EVENTS: Final = "_events"


@dataclass(frozen=True)
class Arrival:
    """How the arrival of an event is measured: by default, its append time in microseconds since 1970.

    With `positions`, each at or below the next, it is the index of the first position beyond the event; their number if none is.
    """

    positions: tuple[Position, ...] = ()

    def of(self, events: pa.Table) -> npt.NDArray[np.int64]:
        """The arrival of each event."""
        if not self.positions:
            times: npt.NDArray[np.int64] = events[APPEND_TIME].cast(pa.int64()).to_numpy()
            return times
        rows, offsets = by_partition(events[EVENTS.topic], events[EVENTS.partition]), events[EVENTS.offset].to_numpy()
        arrivals = np.empty(events.num_rows, dtype=np.int64)
        for partition, some in zip(rows.partitions, np.split(rows.order, rows.starts[1:]), strict=True):
            ends = np.array([position.get(partition, 0) for position in self.positions], dtype=np.int64)
            arrivals[some] = np.searchsorted(ends, offsets[some], side="right")
        return arrivals


BY_TIME: Final = Arrival()


@dataclass(frozen=True)
class Copies:
    """Scratch files of the hashes of events with copies, and of these events, each with `UNTIL`."""

    hashes: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


def copies(session: SparkSession, search: Search, slices: Sequence[Slice], parallelism: int, arrival: Arrival) -> Copies:
    """Find the events of which the slices have several copies. Raises TaskFailed, Unreadable."""
    hashes_of = hashes_of_copies(session, search, slices, parallelism)
    if not hashes_of:
        return Copies()
    files, buckets = tuple(each.file for each in hashes_of), max(parallelism, len(hashes_of))
    work = partial(suspects_of, search, files, buckets)
    return Copies(files, tuple(spark_jobs.each_then(session, work, partial(_store, search, arrival), slices, buckets)))


def _store(search: Search, arrival: Arrival, pieces: Iterator[bytes]) -> Iterator[str]:
    source = project.load_files(search.definitions).sources[search.source]
    some = [from_ipc(piece) for piece in pieces]
    if not some:
        return
    dated = with_until(source, pa.concat_tables(some).combine_chunks(), arrival, search.generations)
    file = TableFile(search.scratch, dated.schema)
    with file:
        file.write(dated)
    if file.written is not None:
        yield file.written.path


def with_until(source: Source, events: pa.Table, arrival: Arrival, generations: Sequence[str] = ()) -> pa.Table:
    """The events that count at some time, with `UNTIL`, in the order of the log. All copies of each are among the events."""
    ordered = events.take(pa.array(log_order(events, generations)))
    identity = ", ".join(map(quoted, identity_columns(source)))
    ranked = ordered.select([*identity_columns(source)]).append_column(_RANK, pa.array(np.arange(ordered.num_rows)))
    arrivals = arrival.of(ordered)
    ranked = ranked.append_column(_ARRIVAL, pa.array(arrivals))
    sql = (
        f"SELECT {_RANK}, min({_ARRIVAL}) OVER (PARTITION BY {identity} ORDER BY {_RANK} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 "
        f"PRECEDING) AS {UNTIL.name} FROM {_EVENTS} ORDER BY {_RANK}"
    )
    until = arrays.whole(engine.query(sql, {_EVENTS: ranked})[UNTIL.name].cast(UNTIL.type))
    dated = ordered.append_column(UNTIL, until)
    counts = until.is_null().to_numpy(zero_copy_only=False) | (arrivals < until.fill_null(0).to_numpy())
    return dated.filter(pa.array(counts))
