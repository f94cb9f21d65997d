"""The identities that were counted shortly before a position: what a speed layer knows again when it starts."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from infra import kafka
from ledger.positions import Position, ranges
from ledger.tables import Tables
from speed import records
from speed.beginning import Beginning
from speed.fold import SCHEMA, Task, identify
from speed.horizon import Horizon
from speed.identities import joined, values
from views.ranges import EMPTY
from views.source import Source
from views.wire import from_ipc

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def unseen(source: Source) -> Horizon:
    """The horizon of a source at the log's start: nothing was counted yet."""
    return Horizon(source.horizon // _MICROSECOND if source.identity else 0)


def seen(
    spark: SparkSession,
    tables: Tables,
    options: Mapping[str, str],
    source: Source,
    task: Task,
    *,
    start: Position,
    beginning: Beginning,
    newest: datetime | None,
) -> Horizon:
    """The horizon at `start`: the keys of the records that the log received at most `source.horizon` before `newest`.

    `newest` is an append time that no event below `start` is known to exceed by much: an earlier one loads more than is
    needed, never less. None: all below `start` are loaded. Reads Kafka, and the archive for what Kafka no longer has.
    """
    horizon = unseen(source)
    if not horizon.span:
        return horizon
    since, log = _EPOCH if newest is None else newest - source.horizon, beginning.log
    lows = kafka.starts(log.connection, log.topics)
    froms = {p: min(offset, beginning.starts[p]) for p, offset in kafka.since(log.connection, log.topics, since).items()}
    found: list[DataFrame] = []
    if any(froms[partition] < end for partition, end in beginning.starts.items()):
        found.append(records.of_log(spark, options, log.topics, source, starts=froms, ends=beginning.starts))
    # Where the log's first record is within the span, what came before it may be too.
    cut = Position.of({p: min(at, lows.get(p, at)) for p, at in start.items() if froms.get(p, 0) <= lows.get(p, at)})
    archived = ranges(Position.of({p: min(beginning.firsts.get(p, 0), at) for p, at in cut.items()}), cut)
    if archived != EMPTY:
        found.append(records.of_archive(spark, tables, source, archived).where(col("timestamp") >= since))
    for frame in found:
        rows = frame.mapInArrow(partial(identify, task), SCHEMA).toArrow()
        horizon = horizon.extended(values(joined([from_ipc(row) for row in rows["share"].to_pylist()])))
    return horizon
