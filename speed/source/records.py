"""Records of the log as Spark data frames of the columns that tasks read: of Kafka, and of the archive."""

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
    """What Spark's Kafka source gives of topics, which knows no topic id."""
    named = records.withColumnRenamed("timestampType", "timestamp_type")
    return named.select(topic_ids(topics).alias("topic_id"), *record_columns(source)[1:])


def of_log(
    spark: SparkSession, options: Mapping[str, str], topics: Sequence[Topic], source: Source, *, starts: Offsets, ends: Offsets
) -> DataFrame:
    """The records between these offsets, one of each for every partition of the topics, once."""
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
    """The option of Spark's Kafka source with which it reads headers, where the source's events hold them."""
    return {"includeHeaders": "true"} if "headers" in record_columns(source) else {}


def of_archive(spark: SparkSession, tables: Tables, source: Source, ranges: Ranges) -> DataFrame:
    """The archive's records of these ranges, of which there must be some; none where nothing is archived yet."""
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
