"""What tells an event from its copies, in 16 bytes, so that copies are found across tasks and micro-batches.

A task drops the copies inside its own share with the kernel's `unique`. What it cannot see, copies that another task
read or that an earlier micro-batch counted, the driver finds by these digests and has dropped by position.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from views.engine import query, quoted, take_back
from views.event import TIMESTAMP
from views.log_order import Places, log_order, places
from views.ranges import Partition
from views.source import INDEX, Source
from views.unique import identity_columns

Digests = npt.NDArray[np.bytes_]
Times = npt.NDArray[np.int64]
Drops = dict[Partition, Places]
"""Where copies are by partition: `views.log_order.places`."""

WIDTH: Final = 16
DIGEST: Final = np.dtype(f"S{WIDTH}")  # numpy ignores trailing zero bytes of it, which changes nothing at one width
SCHEMA: Final = pa.schema(
    [
        ("_topic_id", pa.dictionary(pa.int32(), pa.string())),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_append_time", TIMESTAMP),
        ("digest", pa.binary(WIDTH)),
    ]
)


@dataclass(frozen=True)
class Identities:
    """Digests and append times (microseconds) of events, row by row."""

    digests: Digests
    times: Times


def identities(source: Source, events: pa.Table) -> pa.Table:
    """Position, append time and digest of each event, as SCHEMA has them; no rows for a source without identity.

    Events of a `many` source have their index too.

    A digest is the first 128 bits of SHA-256 over identity and event time, the same in every process: nobody finds two
    events that share one, not even on purpose.
    """
    columns = identity_columns(source)
    if not columns or not events.num_rows:
        return _schema(source).empty_table()
    texts = ", ".join(_text(events.schema.field(column)) for column in columns)
    digest = f"unhex(left(sha256(CAST(to_json([{texts}]) AS VARCHAR)), {2 * WIDTH}))"
    positions = ", ".join(quoted(name) for name in _schema(source).names[:-1])
    found = query(f"SELECT {positions}, {digest} AS digest FROM identified", {"identified": events})
    take_back("identified")
    return found.cast(_schema(source))


def values(found: pa.Table) -> Identities:
    """The digests and times of what `identities` gave, as numpy arrays."""
    digests = found["digest"].combine_chunks()
    times = found["_append_time"].cast(pa.int64()).to_numpy()
    return Identities(np.frombuffer(b"".join(digests.to_pylist()), DIGEST), times)


def copies(found: pa.Table, known: npt.NDArray[np.bool_]) -> Drops:
    """The positions to drop: rows that are `known`, and all but the first of equal digests in the order of the log."""
    if not found.num_rows:
        return {}
    order = log_order(found)
    _, firsts = np.unique(values(found).digests[order], return_index=True)
    dropped = np.ones(found.num_rows, dtype=bool)
    dropped[order[firsts]] = False
    return _by_partition(found.filter(pa.array(dropped | known)))


def without(events: pa.Table, drops: Drops) -> pa.Table:
    """The events that are not at the dropped positions."""
    if not drops or not events.num_rows:
        return events
    kept = np.ones(events.num_rows, dtype=bool)
    topics, partitions, where = events["_topic_id"], events["_partition"].to_numpy(), places(events)
    for (topic, partition), dropped in drops.items():
        here = (partitions == partition) & pc.equal(topics, topic).to_numpy()
        kept &= ~(here & np.isin(where, dropped))
    return events.filter(pa.array(kept))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several of `identities`' tables, in one."""
    return pa.concat_tables(tables).unify_dictionaries() if tables else SCHEMA.empty_table()


def _by_partition(found: pa.Table) -> Drops:
    topics, partitions = found["_topic_id"].cast(pa.string()), found["_partition"].to_numpy()
    names, where = np.array(topics.to_pylist(), dtype=object), places(found)
    there = set(zip(names.tolist(), partitions.tolist(), strict=True))
    return {(topic, number): np.sort(where[(names == topic) & (partitions == number)]) for topic, number in sorted(there)}


def _schema(source: Source) -> pa.Schema:
    return SCHEMA if source.many is None else SCHEMA.insert(3, pa.field(INDEX, pa.int32()))


def _text(field: pa.Field) -> str:
    """The column as a text that only equal values share."""
    name = quoted(field.name)
    if pa.types.is_binary(field.type):
        return f"hex({name})"
    return f"CAST(epoch_us({name}) AS VARCHAR)" if pa.types.is_timestamp(field.type) else f"CAST({name} AS VARCHAR)"
