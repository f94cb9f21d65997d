"""Read records of Kafka and of the archive as Spark DataFrames with the columns that tasks need."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col

from infra.kafka import Topic
from infra.spark.kafka_source import topic_ids, topic_offsets
from ledger.delta import delta_tables
from ledger.delta.addresses import Tables
from views.source.offset_ranges import Offsets, Ranges
from views.source.source import RECORDS_SCHEMA, Source, record_columns


def of_kafka(records: DataFrame, topics: Sequence[Topic], source: Source) -> DataFrame:
    """The rows of Spark's Kafka source, with the topic ids that it lacks."""
    named = records.withColumnRenamed("timestampType", "timestamp_type")
    return named.select(topic_ids(topics).alias("topic_id"), *record_columns(source)[1:])


def of_log(
    spark: SparkSession, options: Mapping[str, str], topics: Sequence[Topic], source: Source, *, starts: Offsets, ends: Offsets
) -> DataFrame:
    """The records between these offsets, which have every partition of the topics, read once."""
    reader = spark.read.format("kafka").options(**options, **headers_option(source))
    return of_kafka(
        reader.options(
            **subscription(topics),
            startingOffsets=topic_offsets(topics, starts),
            endingOffsets=topic_offsets(topics, ends),
            failOnDataLoss="true",
        ).load(),
        topics,
        source,
    )


def headers_option(source: Source) -> dict[str, str]:
    """The option of Spark's Kafka source to read headers, if the source's events have them."""
    return {"includeHeaders": "true"} if "headers" in record_columns(source) else {}


def of_archive(spark: SparkSession, tables: Tables, source: Source, ranges: Ranges) -> DataFrame:
    """The archive's records of these ranges, which must not be empty; no records if nothing is archived yet."""
    address, within = tables.archive(source.name), reduce(or_, [_within(*each) for each in ranges.intervals])
    there = delta_tables.open_table(tables, address) is not None
    records = spark.read.format("delta").load(address) if there else spark.createDataFrame(RECORDS_SCHEMA.empty_table())
    return records.where(within).select(*record_columns(source))


def subscription(topics: Sequence[Topic]) -> dict[str, str]:
    """The option of Spark's Kafka source that names the topics."""
    return {"subscribe": ",".join(topic.name for topic in topics)}


def _within(partition: tuple[str, int], intervals: tuple[tuple[int, int], ...]) -> Column:
    start, end = intervals[0][0], intervals[-1][1]
    same = (col("topic_id") == partition[0]) & (col("partition") == partition[1])
    return same & (col("offset") >= start) & (col("offset") < end)
