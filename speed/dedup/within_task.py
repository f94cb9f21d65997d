"""The identities of a share of a micro-batch, as rows that travel to the driver.

A task drops the duplicates within its own share with the kernel's `deduplicate`, and sets suspects aside: events whose word is
known. The driver decides by their keys which suspects are duplicates, and finds duplicates of events that another task read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tandem.speed.dedup.keys import KEY, WORD_BYTES, Keys, KnownWords, Mask, Rows, by_word, firsts
from tandem.speed.dedup.row_hash import row_hashes
from tandem.views.kernel.deduplicate import content_columns, deduplicate, identity_columns
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.log_order import Places, log_order, places
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import INDEX, Source
from tandem.views.sql.engine import query, quoted

Times = npt.NDArray[np.int64]
Drops = dict[Partition, Places]
"""Positions of duplicates by partition: `tandem.views.source.log_order.places`."""

NO_SECRET: Final = bytes(16)
"""The key of digests where no producer could search for two identities with one digest."""
SCHEMA: Final = pa.schema(
    [
        ("_topic_id", pa.dictionary(pa.int32(), pa.string())),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_append_time", TIMESTAMP),
        ("key", pa.binary(KEY * WORD_BYTES)),
        ("first", pa.bool_()),
        ("suspect", pa.bool_()),
    ]
)
NOTHING_KNOWN: Final = KnownWords()
_EVENTS: Final = "identified"


@dataclass(frozen=True)
class Identities:
    """Keys and append times (microseconds) of events, row by row."""

    keys: Keys
    times: Times


@dataclass(frozen=True)
class Identified:
    """Events with their keys. `single` marks the first event of each identity, all events of a source without identity.

    `suspect` marks the events whose word is known: they are duplicates, but for collisions, which the driver finds.
    `order` has the rows of the first event of each identity and content, in the order of the keys' first words.
    """

    events: pa.Table
    keys: Keys
    single: Mask
    suspect: Mask
    order: Rows


def keys_of(source: Source, events: pa.Table, secret: bytes = NO_SECRET) -> Keys:
    """The key of each event of a source with an identity.

    * Two words are a digest of `identity_columns`: SipHash-2-4 of 128 bits. Two identities with one digest cannot be found
      without the secret, not even on purpose.
    * One word is DuckDB's hash of all other fields. Two contents of one identity have the same word once in 2^64; then a conflict
      is not counted.

    Equal values have equal keys in every process with the same secret. Keys are never stored.
    """
    keys = np.empty((events.num_rows, KEY), np.uint64)
    keys[:, :2] = row_hashes(events, identity_columns(source), secret)
    contents = [_comparable(quoted(name), events.schema.field(name).type) for name in content_columns(source, events)]
    sql = f"SELECT hash({', '.join(contents)}) AS word FROM {_EVENTS}"
    keys[:, 2] = query(sql, {_EVENTS: events})["word"].to_numpy() if contents else 0
    return keys


def identified(
    source: Source,
    events: pa.Table,
    generations: Sequence[str] = (),
    *,
    secret: bytes = NO_SECRET,
    known: KnownWords = NOTHING_KNOWN,
) -> Identified:
    """Find the first event of each identity in the order of the log; `generations` are the ids of topics, the oldest first."""
    single, suspect = np.ones(events.num_rows, dtype=bool), np.zeros(events.num_rows, dtype=bool)
    if not identity_columns(source) or not events.num_rows:
        return Identified(events, np.empty((0, KEY), np.uint64), single, suspect, np.empty(0, np.int64))
    keys = keys_of(source, events, secret)
    order, again = by_word(keys)
    suspect[order] = known.has(keys[order, 0])
    if not len(again):
        return Identified(events, keys, single, suspect, order)
    # Equal identities have equal words: the kernel decides only among the few events that share a word.
    repeated = events.take(pa.array(again))
    single[again] = deduplicate(source, repeated, generations=generations).kept
    again = again[log_order(repeated, generations)]
    shown = np.ones(events.num_rows, dtype=bool)
    shown[again] = firsts(keys[again], KEY)
    return Identified(events, keys, single, suspect, order[shown[order]])


def identities(source: Source, found: Identified) -> pa.Table:
    """Position, append time and key of the first event of each identity and content, as SCHEMA has them, in no order.

    `first` marks the first row of its identity, `suspect` those whose word is known. A source without identity has no rows.
    Events with `max_events_per_record` also have their index.
    """
    schema = SCHEMA if source.max_events_per_record is None else SCHEMA.insert(3, pa.field(INDEX, pa.int32()))
    if not len(found.order):
        return schema.empty_table()
    rows = found.events.select(schema.names[:-3]).take(pa.array(found.order))
    marks = [pa.array(mask[found.order]) for mask in (found.single, found.suspect)]
    columns = [*rows.columns, _packed(found.keys[found.order]), *marks]
    return pa.Table.from_arrays([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def values(found: pa.Table) -> Identities:
    """The keys and times of a table of `identities`, as numpy arrays."""
    chunks = [
        np.frombuffer(chunk.buffers()[1], np.uint64).reshape(-1, KEY)[chunk.offset : chunk.offset + len(chunk)]
        for chunk in found["key"].chunks
        if len(chunk)
    ]
    keys = np.concatenate(chunks) if chunks else np.empty((0, KEY), np.uint64)
    return Identities(keys, found["_append_time"].cast(pa.int64()).to_numpy())


def is_at(events: pa.Table, drops: Drops) -> Mask:
    """Which events are at these positions."""
    there = np.zeros(events.num_rows, dtype=bool)
    if not drops or not events.num_rows:
        return there
    topics, partitions, where = events["_topic_id"], events["_partition"].to_numpy(), places(events)
    for (topic, partition), dropped in drops.items():
        here = (partitions == partition) & pc.equal(topics, topic).to_numpy()
        there |= here & np.isin(where, dropped)
    return there


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Several tables of `identities` as one."""
    return pa.concat_tables(tables).unify_dictionaries() if tables else SCHEMA.empty_table()


def _comparable(value: str, kind: pa.DataType) -> str:
    """SQL for the value that DuckDB hashes: for lists, maps and structs a text, because different ones may have equal hashes."""
    return _text(value, kind) if pa.types.is_nested(kind) else value


def _array(texts: Iterable[str]) -> str:
    return f"CAST(to_json([{', '.join(texts)}]::VARCHAR[]) AS VARCHAR)"


def _text(value: str, kind: pa.DataType, depth: int = 0) -> str:
    """SQL for a text of the value that only equal values share."""
    if pa.types.is_list(kind):
        item = f"item{depth}"
        texts = f"list_transform({value}, lambda {item}: {_text(item, kind.value_type, depth + 1)})"
        return f"CAST(to_json({texts}) AS VARCHAR)"
    if pa.types.is_map(kind):
        return _text(f"map_entries({value})", pa.list_(pa.struct([("key", pa.string()), ("value", kind.item_type)])), depth)
    if pa.types.is_struct(kind):
        texts = _array(_text(f"struct_extract({value}, '{field.name}')", field.type, depth) for field in kind)
        return f"CASE WHEN {value} IS NOT NULL THEN {texts} END"
    if pa.types.is_binary(kind):
        return f"hex({value})"
    return f"CAST(epoch_us({value}) AS VARCHAR)" if pa.types.is_timestamp(kind) else f"CAST({value} AS VARCHAR)"


def _packed(keys: Keys) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(KEY * WORD_BYTES), len(keys), [None, pa.py_buffer(np.ascontiguousarray(keys))])
