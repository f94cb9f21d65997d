"""Rows that have the topic, partition and offset of their records: each keeps this place, or the table is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tandem.batch.adopt.table import NotAdopted
from tandem.views.source.source import Source


@dataclass(frozen=True)
class PlaceSpan:
    """The rows of a partition: how many, how many different offsets they have, how many lack one, the first and the last."""

    topic: str | None
    partition: int | None
    rows: int
    offsets: int
    nulls: int
    first: int | None
    last: int | None


def spans(frame: DataFrame) -> list[PlaceSpan]:
    """The places of rows with `topic`, `partition` and `offset`, by partition. One Spark job."""
    offset = sql.col("offset")
    spans = frame.groupBy("topic", "partition").agg(
        sql.count("*").alias("rows"),
        sql.count_distinct(offset).alias("offsets"),
        sql.count_if(offset.isNull()).alias("nulls"),
        sql.min(offset).alias("first"),
        sql.max(offset).alias("last"),
    )
    return [PlaceSpan(**span) for span in spans.orderBy("topic", "partition").toArrow().to_pylist()]


def order_by_place(frame: DataFrame, parallelism: int) -> DataFrame:
    """The rows of each partition in one task, in the order of their offsets."""
    return frame.repartition(parallelism, "partition").sortWithinPartitions("partition", "offset")


def check_places(source: Source, rows: Sequence[PlaceSpan], ends: Mapping[int, int], firsts: Mapping[int, int]) -> None:
    """Raise NotAdopted unless each row has a place in the source's topic of its own.

    `ends` are the offsets up to which rows of a partition were adopted, `firsts` those from which on the topic counts.
    """
    for span in rows:
        where = f"topic {span.topic!r}, partition {span.partition}"
        if span.topic is None or span.partition is None or span.nulls:
            number = span.nulls or span.rows
            raise NotAdopted(f"{number} rows of {where} have a coordinate that is NULL or not a number; nothing was adopted")
        if not source.reads(span.topic):
            reads = source.pattern or repr(source.topics[0])
            raise NotAdopted(
                f"{span.rows} rows are of {where}, and source {source.name!r} reads topic {reads}; nothing was adopted"
            )
        if span.partition not in firsts:
            raise NotAdopted(
                f"{span.rows} rows are of {where}, for which start of source {source.name!r} gives no offset, so all records of "
                "the topic would count and no row; nothing was adopted"
            )
        if span.offsets < span.rows:
            raise NotAdopted(
                f"{span.rows - span.offsets} rows of {where} repeat an offset: the table has rows twice, or rows of an "
                "earlier topic of this name; nothing was adopted"
            )
        if span.first is not None and span.first < ends.get(span.partition, 0):
            raise NotAdopted(
                f"rows of {where} begin at offset {span.first}, and rows up to {ends.get(span.partition, 0)} were adopted or "
                "offsets are negative; nothing was adopted"
            )
