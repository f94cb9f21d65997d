"""Keys of 24 bytes that identify an event and its content, to find duplicates and conflicts.

A task drops the duplicates within its own share with the kernel's `unique`. The driver finds duplicates of events that another
task read or an earlier micro-batch counted by these keys, and has the tasks drop them by position.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from views.kernel.deduplicate import content_columns, identity_columns
from views.source.event import TIMESTAMP
from views.source.log_order import Places, log_order, places
from views.source.offset_ranges import Partition
from views.source.source import INDEX, Source
from views.sql.engine import query, quoted

Keys = npt.NDArray[np.bytes_]
Times = npt.NDArray[np.int64]
Drops = dict[Partition, Places]
"""Where copies are by partition: `views.source.log_order.places`."""

IDENTITY_WIDTH: Final = 16
KEY_WIDTH: Final = 24
# numpy ignores trailing zero bytes of these, which changes nothing at one width.
IDENTITY: Final = np.dtype(f"S{IDENTITY_WIDTH}")
KEY: Final = np.dtype(f"S{KEY_WIDTH}")
SCHEMA: Final = pa.schema(
    [
        ("_topic_id", pa.dictionary(pa.int32(), pa.string())),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_append_time", TIMESTAMP),
        ("key", pa.binary(KEY_WIDTH)),
        ("first", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Identities:
    """Keys and append times (microseconds) of events, row by row."""

    keys: Keys
    times: Times


def identities(source: Source, events: pa.Table, generations: Sequence[str] = ()) -> pa.Table:
    """Position, append time and key of the first event of each identity and content, as SCHEMA has them.

    * A key is 16 bytes of the identity and 8 of the content: the first bits of SHA-256 over identity and event time, and of MD5
      over all other fields. It is the same in every process.
    * Two identities with the same 16 bytes cannot be found, not even on purpose. Two contents of one identity have the same 8
      bytes once in 2^64; then a conflict is not counted.
    * `first` marks the first row of its identity, which `unique` keeps.
    * A source without identity has no rows. Events with `max_events_per_record` also have their index.
    """
    columns, schema = identity_columns(source), _schema(source)
    if not columns or not events.num_rows:
        return schema.empty_table()
    identity = f"left(sha256({_json(events.schema, columns)}), {2 * IDENTITY_WIDTH})"
    content = f"left(md5({_json(events.schema, content_columns(source, events))}), {2 * (KEY_WIDTH - IDENTITY_WIDTH)})"
    positions = ", ".join(quoted(name) for name in schema.names[:-2])
    sql = f"SELECT {positions}, unhex({identity} || {content}) AS key FROM identified"
    found = query(sql, {"identified": events})
    order = log_order(found, generations)
    keys = keys_of(found)[order]
    _, firsts = np.unique(keys, return_index=True)
    _, leading = np.unique(keys.astype(IDENTITY), return_index=True)
    first = np.isin(firsts, leading)
    return found.take(pa.array(order[firsts])).append_column("first", pa.array(first)).cast(schema)


def keys_of(found: pa.Table) -> Keys:
    """The keys of a table of `identities`, as a numpy array."""
    return np.frombuffer(b"".join(found["key"].to_pylist()), KEY)


def values(found: pa.Table) -> Identities:
    """The keys and times of a table of `identities`, as numpy arrays."""
    return Identities(keys_of(found), found["_append_time"].cast(pa.int64()).to_numpy())


def without(events: pa.Table, drops: Drops) -> pa.Table:
    """The events without those at the dropped positions."""
    if not drops or not events.num_rows:
        return events
    kept = np.ones(events.num_rows, dtype=bool)
    topics, partitions, where = events["_topic_id"], events["_partition"].to_numpy(), places(events)
    for (topic, partition), dropped in drops.items():
        here = (partitions == partition) & pc.equal(topics, topic).to_numpy()
        kept &= ~(here & np.isin(where, dropped))
    return events.filter(pa.array(kept))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Several tables of `identities` as one."""
    return pa.concat_tables(tables).unify_dictionaries() if tables else SCHEMA.empty_table()


def _schema(source: Source) -> pa.Schema:
    return SCHEMA if source.max_events_per_record is None else SCHEMA.insert(3, pa.field(INDEX, pa.int32()))


def _json(schema: pa.Schema, columns: Iterable[str]) -> str:
    """SQL for a text of the columns that only equal values share."""
    return _array(_text(quoted(name), schema.field(name).type) for name in columns)


def _array(texts: Iterable[str]) -> str:
    return f"CAST(to_json([{', '.join(texts)}]::VARCHAR[]) AS VARCHAR)"


def _text(value: str, kind: pa.DataType, depth: int = 0) -> str:
    """SQL for a text of the value that only equal values share."""
    if pa.types.is_list(kind):
        item = f"item{depth}"
        texts = f"list_transform({value}, lambda {item}: {_text(item, kind.value_type, depth + 1)})"
        return f"CAST(to_json({texts}) AS VARCHAR)"
    if pa.types.is_struct(kind):
        texts = _array(_text(f"struct_extract({value}, '{field.name}')", field.type, depth) for field in kind)
        return f"CASE WHEN {value} IS NOT NULL THEN {texts} END"
    if pa.types.is_binary(kind):
        return f"hex({value})"
    return f"CAST(epoch_us({value}) AS VARCHAR)" if pa.types.is_timestamp(kind) else f"CAST({value} AS VARCHAR)"
