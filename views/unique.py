"""The kernel's unique: one event of each identity, before any filter sees it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from views.log_order import Rows, log_order
from views.source import APPEND_TIME, INDEX, METADATA_SCHEMA, POSITION_SCHEMA, Source

_AROUND = frozenset({*POSITION_SCHEMA.names, INDEX, *METADATA_SCHEMA.names})

Mask = npt.NDArray[np.bool_]

_RANK, _GROUP = "_rank", "_group"  # no field's name starts with an underscore


@dataclass(frozen=True)
class Unique:
    """The events that count, in the order they came in; how many copies were dropped, and how many of them differed.

    A conflict is a dropped copy whose content differs from that of the event kept in its place. Copies of an event in
    `known` are duplicates whose content cannot be compared.
    """

    events: pa.Table
    duplicates: int
    conflicts: int


def identity_columns(source: Source) -> list[str]:
    """The columns that tell an event from its copies: identity and event time; none for a source without identity.

    When the log received a copy is no part of what it is a copy of.
    """
    columns = dict.fromkeys((*source.identity, source.event_time)) if source.identity else {}
    return [name for name in columns if name != APPEND_TIME]


def unique(source: Source, events: pa.Table, known: pa.Table | None = None, *, generations: Sequence[str] = ()) -> Unique:
    """Keep the first of each identity and event time in the order of the log, whatever the order of the rows.

    That is by topic, partition, offset and index; `generations` are the ids of topics, the oldest first (see views.log_order).
    `known` holds the identity columns of events that were counted before: their copies are dropped. A source without
    identity keeps every event.
    """
    columns = identity_columns(source)
    if not columns or not events.num_rows:
        return Unique(events, 0, 0)
    order = log_order(events, generations)
    ranked = events.select(columns).take(pa.array(order)).append_column(_RANK, pa.array(np.arange(len(order))))
    groups = ranked.group_by(columns, use_threads=False).aggregate([(_RANK, "min"), (_RANK, "list")])
    if known is not None and known.num_rows:
        groups = _without(groups, known, columns)
    if groups.num_rows == events.num_rows:
        return Unique(events, 0, 0)
    firsts = groups[f"{_RANK}_min"].to_numpy()
    kept = np.zeros(events.num_rows, dtype=bool)
    kept[order[firsts]] = True
    copies = groups[f"{_RANK}_list"].combine_chunks()
    ranks = copies.flatten().to_numpy()
    winners = np.repeat(firsts, copies.value_lengths().to_numpy())
    others = ranks != winners
    conflicts = _conflicts(events, columns, order[ranks[others]], order[winners[others]])
    return Unique(events.filter(pa.array(kept)), int(events.num_rows - len(firsts)), conflicts)


def _without(groups: pa.Table, known: pa.Table, columns: list[str]) -> pa.Table:
    """The groups whose key is not in `known`."""
    keys = groups.select(columns).append_column(_GROUP, pa.array(np.arange(groups.num_rows)))
    seen = known.select(columns).cast(groups.select(columns).schema)
    # Few of many known keys matter to a micro-batch: look for those before a hash table is made of all.
    seen = seen.filter(pc.is_in(seen[columns[0]], value_set=groups[columns[0]]))
    fresh = keys.join(seen, keys=columns, join_type="left anti", use_threads=False)
    return groups.take(fresh[_GROUP])


def _conflicts(events: pa.Table, columns: list[str], copies: Rows, winners: Rows) -> int:
    """How many of the copies differ from their winner in a column that is neither position nor metadata nor identity."""
    content = [name for name in events.column_names if name not in columns and name not in _AROUND]
    if not len(copies) or not content:
        return 0
    mine, theirs = events.take(pa.array(copies)), events.take(pa.array(winners))
    return int(reduce(np.logical_or, (_differs(mine[name], theirs[name]) for name in content)).sum())


def _differs(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.array([mine != theirs for mine, theirs in pairs], dtype=bool)
    unequal = pc.fill_null(pc.not_equal(left, right), False)
    differs: Mask = pc.or_(unequal, pc.xor(pc.is_null(left), pc.is_null(right))).to_numpy()
    return differs
