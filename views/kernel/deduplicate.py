"""The kernel's deduplicate: keeps one event of each identity, before any filter."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.source.fields.rounded import ROUNDED
from tandem.views.source.log_order import log_order
from tandem.views.source.source import INDEX, METADATA_SCHEMA, POSITION_SCHEMA, Source
from tandem.views.sql.engine import query, quoted

_AROUND = frozenset({*POSITION_SCHEMA.names, INDEX, *METADATA_SCHEMA.names, ROUNDED})

_RANK, _GROUP = "_rank", "_group"  # no field's name starts with an underscore
_COPIES = "_copies"


@dataclass(frozen=True)
class Deduplicated:
    """The events that count, in the order of the input; the number of dropped duplicates, and of conflicts among them.

    * `conflicts`: dropped duplicates whose content neither the kept event nor an earlier duplicate had. Contents A, B, B have one
      conflict. So it is the number of different contents that were dropped, whatever the order of duplicates and the cuts of the
      log. The content of duplicates of an event in `known` cannot be compared, so they are not conflicts.
    * `kept`: marks the rows of the input that count.
    """

    events: pa.Table
    duplicates: int
    conflicts: int
    kept: npt.NDArray[np.bool_] = field(compare=False)


def identity_columns(source: Source) -> list[str]:
    """The columns in which duplicates are equal: identity, and event time unless the identity spans any time.

    None for a source without identity. Duplicates may have different append times. All events of one record share its idempotency
    key, and with `unnest` its other fields, so `_index` distinguishes them.
    """
    columns = dict.fromkeys((*source.identity, *((source.time_column,) if source.identity_has_time else ())))
    if source.index_identifies:
        columns[INDEX] = None
    return [*columns]


def content_columns(source: Source, events: pa.Table) -> list[str]:
    """The columns in which duplicates may differ: neither position nor metadata nor identity.

    The event time of an identity that spans any time is one: which duplicate counts then decides the window.
    """
    identity = identity_columns(source)
    return [name for name in events.column_names if name not in identity and name not in _AROUND]


def deduplicate(
    source: Source, events: pa.Table, known: pa.Table | None = None, *, generations: Sequence[str] = ()
) -> Deduplicated:
    """Keep the first of each identity (see `identity_columns`) in the order of the log, whatever the order of the rows.

    * The order is by topic, partition, offset and index; `generations` are the ids of topics, the oldest first (see
      tandem.views.source.log_order).
    * `known` holds the identity columns of events that were counted before: their duplicates are dropped.
    * A source without identity keeps every event.
    """
    columns = identity_columns(source)
    everything = np.ones(events.num_rows, dtype=bool)
    if not columns or not events.num_rows:
        return Deduplicated(events, 0, 0, everything)
    order = log_order(events, generations)
    ranked = events.select(columns).take(pa.array(order)).append_column(_RANK, pa.array(np.arange(len(order))))
    groups = ranked.group_by(columns, use_threads=False).aggregate([(_RANK, "min"), (_RANK, "list")])
    if known is not None and known.num_rows:
        groups = _without(groups, known, columns)
    if groups.num_rows == events.num_rows:
        return Deduplicated(events, 0, 0, everything)
    firsts = groups[f"{_RANK}_min"].to_numpy()
    kept = np.zeros(events.num_rows, dtype=bool)
    kept[order[firsts]] = True
    copies = groups[f"{_RANK}_list"].combine_chunks()
    repeated = copies.filter(pc.greater(copies.value_lengths(), 1))
    conflicts = 0
    if len(repeated):
        conflicts = contents(source, events.take(pa.array(order[repeated.flatten().to_numpy()]))).num_rows - len(repeated)
    return Deduplicated(events.filter(pa.array(kept)), int(events.num_rows - len(firsts)), conflicts, kept)


def contents(source: Source, events: pa.Table) -> pa.Table:
    """The distinct pairs of identity and content of the events; nulls are equal. The source has an identity.

    The number of conflicts among events is the number of these rows minus the number of identities.
    """
    columns = [*identity_columns(source), *content_columns(source, events)]
    names = ", ".join(quoted(name) for name in columns)
    different = query(f"SELECT DISTINCT {names} FROM {_COPIES}", {_COPIES: events})
    return different.cast(events.select(columns).schema)


def _without(groups: pa.Table, known: pa.Table, columns: list[str]) -> pa.Table:
    """The groups whose key is not in `known`: an anti-join."""
    keys = groups.select(columns).append_column(_GROUP, pa.array(np.arange(groups.num_rows)))
    seen = known.select(columns).cast(groups.select(columns).schema)
    # A micro-batch needs few of many known keys: select those before the join builds a hash table.
    seen = seen.filter(pc.is_in(seen[columns[0]], value_set=groups[columns[0]]))
    fresh = keys.join(seen, keys=columns, join_type="left anti", use_threads=False)
    return groups.take(fresh[_GROUP])
